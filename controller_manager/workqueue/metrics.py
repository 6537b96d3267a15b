"""What a queue tells about itself."""

from typing import Protocol


class QueueMetrics(Protocol):
    """Hooks that a queue calls; durations are in seconds."""

    def added(self, depth: int) -> None:
        """Count an accepted add; `depth` items wait now."""

    def got(self, waited: float, depth: int) -> None:
        """Observe that an item was taken after waiting; `depth` still wait."""

    def done(self, worked: float) -> None:
        """Observe that the work on an item took this long."""

    def retried(self) -> None:
        """Count a delayed add."""

    def running(self, unfinished: float, longest: float) -> None:
        """Set the summed and the longest age of work in progress."""


class NoMetrics:
    """Hooks that do nothing."""

    def added(self, depth: int) -> None:
        """Ignore."""

    def got(self, waited: float, depth: int) -> None:
        """Ignore."""

    def done(self, worked: float) -> None:
        """Ignore."""

    def retried(self) -> None:
        """Ignore."""

    def running(self, unfinished: float, longest: float) -> None:
        """Ignore."""
