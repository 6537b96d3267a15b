"""The annotations with which a user decides what a pod does.

An annotation applies to all containers except init containers. With the name of a
container at its end (``devcluster/exit-code.NAME``) it applies to that container. The
table in docs/devcluster.md shows all annotations.
"""

import math
import re
from typing import Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON

from .commands import FOREVER

PREFIX: Final = "devcluster/"
RUN_SECONDS: Final = "devcluster/run-seconds"
EXIT_CODE: Final = "devcluster/exit-code"
FAILING_INDEXES: Final = "devcluster/failing-indexes"
FAILING_STARTUP: Final = "devcluster/failing-startup"
FAILING_LIVENESS: Final = "devcluster/failing-liveness"
FAILING_READINESS: Final = "devcluster/failing-readiness"
FAILING_SANDBOX: Final = "devcluster/failing-sandbox"
TERMINATION_SECONDS: Final = "devcluster/termination-seconds"
PULL_SECONDS: Final = "devcluster/pull-seconds"
LOGS: Final = "devcluster/logs"
EXEC: Final = "devcluster/exec"

_LONGEST: Final = 100
"""The most characters of a wrong annotation in a message."""

_NUMBER: Final = r"(\d{1,9}(?:\.\d{1,3})?)"
_PERIOD: Final = re.compile(rf"{_NUMBER}?-{_NUMBER}?")
_MOST_PERIODS: Final = 100
_SECONDS: Final = re.compile(r"\d{1,12}(?:\.\d{1,6})?")


class AnnotationError(Exception):
    """An annotation cannot be understood; the message names it."""

    @classmethod
    def of(cls, key: str, text: str, expected: str) -> "AnnotationError":
        """Return the error about an annotation that must be `expected`."""
        shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
        return cls(f"annotation {key}: must be {expected}, it is {shown!r}")


class Periods(Struct, frozen=True):
    """Periods of time: pairs of a first second, and the second after the last."""

    pairs: tuple[tuple[float, float], ...] = ()

    def include(self, second: float) -> bool:
        """Tell whether a second is in one of the periods."""
        return any(first <= second < last for first, last in self.pairs)

    def following(self, second: float, step: float) -> float | None:
        """Return the first of `second` + n `step`, n > 0, that a period includes.

        Returns `None` if there is none.
        """
        found = []
        for first, last in self.pairs:
            steps = max(1, math.ceil((first - second) / step - 1e-9))
            if first <= (at := second + steps * step) < last:
                found.append(at)
        return min(found, default=None)


def find(
    pod: JSON, key: str, container: str, *, shared: bool = True
) -> tuple[str, str] | None:
    """Return the annotation for a container, as name and text, `None` without one.

    Unless it is `shared`, it must name the container.
    """
    annotations = pod["metadata"].get("annotations")
    if not annotations:
        return None
    for name in (f"{key}.{container}", key) if shared else (f"{key}.{container}",):
        if name in annotations:
            return name, str(annotations[name]).strip()
    return None


def has_any(pod: JSON) -> bool:
    """Tell whether an annotation decides what a pod does."""
    annotations = pod["metadata"].get("annotations")
    return bool(annotations) and any(each.startswith(PREFIX) for each in annotations)


def seconds_of(key: str, text: str) -> float:
    """Return a number of seconds, or FOREVER; raises AnnotationError."""
    if text == "forever":
        return FOREVER
    if not _SECONDS.fullmatch(text):
        raise AnnotationError.of(key, text, 'a number of seconds, or "forever"')
    return float(text)


def periods_of(key: str, text: str) -> Periods:
    """Return periods of seconds, such as ``10-20,40-``; raises AnnotationError."""
    if text in ("always", "never"):
        return Periods(((0.0, FOREVER),) if text == "always" else ())
    pairs = []
    parts = text.split(",")
    for part in parts:
        match = _PERIOD.fullmatch(part.strip())
        if match is None or len(parts) > _MOST_PERIODS:
            expected = (
                '"always", "never", or at most 100 periods in seconds, as "10-20,40-"'
            )
            raise AnnotationError.of(key, text, expected)
        pairs.append((float(match[1] or 0), float(match[2] or FOREVER)))
    return Periods(tuple(pairs))
