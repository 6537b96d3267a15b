"""The delay before a failed pod of a node is replaced (flowcontrol.Backoff)."""

from collections.abc import Collection
from typing import Final

from msgspec import Struct

from controller_manager.clock import Clock

_FIRST: Final = 1.0
_LONGEST: Final = 900.0
_FORGOTTEN_AFTER: Final = 2 * _LONGEST
"""Seconds after the last replacement after which the next one counts as the first."""


class _Replacement(Struct, frozen=True):
    """The last replacement of a failed pod, and the delay until the next one."""

    at: float
    delay: float


class _Failures(Struct, frozen=True):
    """The replacements for one generation of a daemon set, by node."""

    generation: int
    by_node: dict[str, _Replacement]


class FailedPodBackoff:
    """Delays the replacement of failed pods, by daemon set and node.

    A kubelet may reject every pod of a daemon set; without a delay the controller
    would replace them as fast as it can. The first failed pod of a node is replaced at
    once, the next ones at least 1, 2, 4 and so on up to 900 seconds later. A new
    observed generation starts afresh.
    """

    def __init__(self, clock: Clock) -> None:
        """Take the clock; begin without failures."""
        self._clock = clock
        self._failures: dict[str, _Failures] = {}

    def __len__(self) -> int:
        """Return the number of daemon sets that have failures."""
        return len(self._failures)

    def delays(
        self, key: str, generation: int, nodes: Collection[str]
    ) -> dict[str, float]:
        """Return the seconds for which failed pods must stay, by node.

        Drops the failures of nodes that are not in `nodes`. A node without a delay is
        absent.
        """
        failures = self._failures.pop(key, None)
        if failures is None or failures.generation != generation:
            return {}
        now = self._clock.monotonic()
        kept = {
            node: each
            for node, each in failures.by_node.items()
            if node in nodes and now - each.at <= _FORGOTTEN_AFTER
        }
        if kept:
            self._failures[key] = _Failures(generation, kept)
        # A remainder from a floating-point error is not a delay. Virtual time does not
        # pass during a sync, so the same sync would be repeated without end.
        remaining = {
            node: round(each.at + each.delay - now, 6) for node, each in kept.items()
        }
        return {node: seconds for node, seconds in remaining.items() if seconds > 0}

    def replaced(self, key: str, generation: int, node: str) -> None:
        """Note that a failed pod of this node is replaced now."""
        failures = self._failures.get(key)
        if failures is None or failures.generation != generation:
            failures = self._failures[key] = _Failures(generation, {})
        last = failures.by_node.get(node)
        delay = _FIRST if last is None else min(2 * last.delay, _LONGEST)
        failures.by_node[node] = _Replacement(self._clock.monotonic(), delay)

    def forget(self, key: str) -> None:
        """Drop the failures of a daemon set that is gone."""
        self._failures.pop(key, None)
