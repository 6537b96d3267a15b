"""The metrics hooks of a work queue."""

from typing import Protocol


class QueueMetrics(Protocol):
    """Hooks that a queue calls; durations are in seconds."""

    def added(self, depth: int) -> None:
        """Count an accepted add; `depth` items wait now."""

    def got(self, waited: float, depth: int) -> None:
        """Observe how long an item waited until it was taken; `depth` still wait."""

    def done(self, worked: float) -> None:
        """Observe how long the processing of an item took."""

    def retried(self) -> None:
        """Count a delayed add."""

    def dropped(self) -> None:
        """Record that no item waits any more: the queue was shut down."""

    def running(self, unfinished: float, longest: float) -> None:
        """Set the total and the longest age of the items in progress."""


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

    def dropped(self) -> None:
        """Ignore."""

    def running(self, unfinished: float, longest: float) -> None:
        """Ignore."""
