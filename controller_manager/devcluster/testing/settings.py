"""The settings of a cluster for tests."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final


class ClusterError(Exception):
    """A cluster cannot run with its settings; the message names cause and remedy."""


_LIMITS: Final[dict[str, tuple[float, float]]] = {
    "nodes": (0, 5000),
    "time_factor": (1, 1000),
    "port": (0, 65535),
    "pod_start_delay": (0, 3600),
    "grace_scale": (0, 1),
    "verbosity": (-1, 10),
}

_LISTS: Final = (
    "controllers",
    "manifests",
    "feature_gates",
    "enable_admission_plugins",
    "disable_admission_plugins",
)


@dataclass(frozen=True, kw_only=True)
class ClusterSettings:
    """The settings of a cluster; times are in seconds of the cluster's clock.

    Raises ClusterError for a value that is out of its range.
    """

    nodes: int = 3
    """The number of nodes; with 0, pods stay pending."""

    controllers: tuple[str, ...] = ("*",)
    """The controllers that run, as in ``--controllers``; an empty tuple runs none."""

    rbac: bool = False
    """True if users may do only what roles allow."""

    time_factor: float = 1.0
    """The seconds that pass in the cluster while one second passes for its clients."""

    pod_start_delay: float = 0.1
    """Seconds until a pod that was scheduled is Ready."""

    grace_scale: float = 1.0
    """The factor by which nodes shorten termination grace periods."""

    manifests: tuple[Path | str, ...] = ()
    """YAML files, and directories of such files, whose objects exist from the start."""

    feature_gates: tuple[str, ...] = ()
    """Feature gates of the API server and of the controllers, as ``Name=true``."""

    enable_admission_plugins: tuple[str, ...] = ()
    """Admission plugins that are on besides those that are on by default."""

    disable_admission_plugins: tuple[str, ...] = ()
    """Admission plugins that are off although they are on by default."""

    port: int = 0
    """The port of the API server; 0 takes a free one."""

    data: Path | str | None = None
    """The file in which the cluster keeps its state; without one, in memory."""

    verbosity: int = -1
    """The verbosity of the log on standard error; -1 logs nothing."""

    def __post_init__(self) -> None:
        """Check the numbers and the lists."""
        for name in _LISTS:
            if isinstance(value := getattr(self, name), str):
                msg = f"{name}: must be a tuple of names, not the text {value!r}"
                raise ClusterError(msg)
        for name, (least, most) in _LIMITS.items():
            value = getattr(self, name)
            if not least <= value <= most:
                msg = f"{name}: must be from {least:g} to {most:g}, not {value:g}"
                raise ClusterError(msg)
