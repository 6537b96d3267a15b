"""The settings of the preview, and the bounds of its memory."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PreviewSettings:
    """The settings of the preview; times are in seconds.

    `grace` is the time that the manager in charge has to make the same write. It is
    also the time by which two timestamps may differ. With `dry_run` each write is sent
    as a dry run, so that admission can refuse it. `taken` are flags of the manager in
    charge, from the pod `source`. `most_entries` and `most_bytes` bound the overlay,
    `most_findings` the divergences that are listed, and `most_changes` the changes that
    are kept for watches that begin again.
    """

    grace: float = 30.0
    dry_run: bool = False
    source: str = ""
    taken: tuple[str, ...] = ()
    most_entries: int = 10_000
    most_bytes: int = 64 << 20
    most_findings: int = 1_000
    most_changes: int = 2_000
