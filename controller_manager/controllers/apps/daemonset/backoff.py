"""The delay before a failed pod of a node is replaced (flowcontrol.Backoff)."""

from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.clock import Clock
from controller_manager.control.creation_delays import LONGEST_DELAY, delay_after

_FORGOTTEN_AFTER: Final = 2 * LONGEST_DELAY
"""Seconds after the last replacement after which the next one counts as the first."""


class Delays(Struct, frozen=True):
    """The seconds until failed pods may be replaced, by node.

    `failed` has the nodes whose failed pods must stay. `missing` has those of them
    whose failed pod is gone already, because another client has deleted it.
    """

    failed: Mapping[str, float]
    missing: Mapping[str, float]


NO_DELAYS: Final = Delays({}, {})


class _Replacement(Struct, frozen=True):
    """The last replacement of a failed pod, and the delay until the next one.

    `uid` is that of the last failed pod. `is_missing` is true if another client has
    deleted it, and no other pod was created for the node.
    """

    at: float
    delay: float
    uid: str
    is_missing: bool = False


class _Failures(Struct, frozen=True):
    generation: int
    by_node: dict[str, _Replacement]


class FailedPodBackoff:
    """Delays the replacement of failed pods, by daemon set and node.

    A kubelet may reject every pod of a daemon set. The first failed pod of a node is
    replaced at once, the next ones at least 1, 2, 4 and so on up to 900 seconds later,
    also if another client deletes them. A new observed generation starts afresh.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[str, _Failures] = {}

    def __len__(self) -> int:
        """Return the number of daemon sets that have failures."""
        return len(self._failures)

    def delays(self, key: str, generation: int, nodes: Collection[str]) -> Delays:
        """Return the delays of nodes; drop the failures of others than `nodes`."""
        failures = self._failures.pop(key, None)
        if failures is None or failures.generation != generation:
            return NO_DELAYS
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
        failed = {node: seconds for node, seconds in remaining.items() if seconds > 0}
        missing = {node: failed[node] for node in failed if kept[node].is_missing}
        return Delays(failed, missing)

    def replaced(self, key: str, generation: int, node: str, uid: str) -> None:
        """Note that the failed pod `uid` of this node is replaced now."""
        failures = self._of(key, generation)
        last = failures.by_node.get(node)
        delay = delay_after(0.0 if last is None else last.delay)
        failures.by_node[node] = _Replacement(self._clock.monotonic(), delay, uid)

    def deleted_by_others(self, key: str, generation: int, node: str, uid: str) -> None:
        """Note that another client has deleted the failed pod `uid` of this node."""
        # The next pod of the node then replaces it, and waits for the delay. A pod that
        # was replaced already is ignored: its deletion causes several events.
        failures = self._of(key, generation)
        last = failures.by_node.get(node)
        if last is None:
            last = _Replacement(self._clock.monotonic(), 0.0, "")
        if last.uid != uid:
            failures.by_node[node] = replace(last, uid=uid, is_missing=True)

    def created(self, key: str, generation: int, node: str) -> None:
        """Note that a pod is created for this node; it may replace a missing one."""
        failures = self._failures.get(key)
        if failures is None or failures.generation != generation:
            return
        last = failures.by_node.get(node)
        if last is not None and last.is_missing:
            self.replaced(key, generation, node, last.uid)

    def _of(self, key: str, generation: int) -> _Failures:
        """Return the failures of a generation; forget those of another one."""
        failures = self._failures.get(key)
        if failures is None or failures.generation != generation:
            failures = self._failures[key] = _Failures(generation, {})
        return failures

    def forget(self, key: str) -> None:
        """Drop the failures of a daemon set that is gone."""
        self._failures.pop(key, None)
