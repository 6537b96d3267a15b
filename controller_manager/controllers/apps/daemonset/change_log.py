"""The nodes that changed and were not yet compared with all daemon sets."""

from collections.abc import Iterator


class ChangeLog:
    """Names of changed nodes, in the order of their last change.

    A reader remembers the `position` up to which it has read, so it reads each change
    once.
    """

    def __init__(self) -> None:
        """Begin without any change."""
        self.position = 0
        """The number of the last change."""

        self._numbers: dict[str, int] = {}

    def note(self, name: str) -> None:
        """Add a change of a node; an earlier one of the same node is forgotten."""
        self.position += 1
        self._numbers.pop(name, None)
        self._numbers[name] = self.position

    def settle(self, name: str) -> None:
        """Drop a node: every reader has seen its present state."""
        self._numbers.pop(name, None)

    def since(self, position: int) -> Iterator[str]:
        """Yield the nodes that have changed after a position, the newest first."""
        for name, number in reversed(self._numbers.items()):
            if number <= position:
                return
            yield name
