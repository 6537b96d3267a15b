"""The queue of a zone lets one node through at a time."""

from datetime import UTC, datetime

from controller_manager.controllers.nodes.nodelifecycle.taints import EvictionQueue


class HandClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds


def _queue(rate: float, *names: str) -> tuple[EvictionQueue, HandClock]:
    clock = HandClock()
    queue = EvictionQueue(rate, clock)
    for name in names:
        queue.add(name)
    return queue, clock


def _taint(queue: EvictionQueue) -> str | None:
    name = queue.head()
    if name is not None:
        queue.discard(name)
        queue.used()
    return name


def test_the_first_node_waits_for_nothing_and_the_next_for_its_turn() -> None:
    """At 0.1 nodes per second, the next node waits ten seconds."""
    queue, clock = _queue(0.1, "a", "b", "a")
    assert (_taint(queue), _taint(queue), queue.requeue_after()) == ("a", None, 10.0)
    clock.seconds = 5.0
    assert (_taint(queue), queue.requeue_after()) == (None, 5.0)
    clock.seconds = 10.0
    assert (_taint(queue), queue.requeue_after()) == ("b", None)


def test_tokens_are_not_saved_up() -> None:
    """After an hour without nodes, one is tainted at once, not many."""
    queue, clock = _queue(0.1)
    clock.seconds = 3600.0
    for name in "abc":
        queue.add(name)
    assert [_taint(queue) for _ in range(3)] == ["a", None, None]


def test_a_rate_of_zero_lets_no_node_through() -> None:
    """The nodes stay in the queue; at a new rate, the first waits for one token."""
    queue, clock = _queue(0.1, "a")
    queue.set_rate(0)
    clock.seconds = 3600.0
    assert (_taint(queue), queue.requeue_after(), len(queue._names)) == (None, None, 1)
    queue.set_rate(0.5)
    assert (_taint(queue), queue.requeue_after()) == (None, 2.0)
    clock.seconds += 2
    assert _taint(queue) == "a"


def test_the_same_rate_changes_nothing() -> None:
    """A token that was used is not given back."""
    queue, _ = _queue(0.1, "a", "b")
    assert _taint(queue) == "a"
    queue.set_rate(0.1)
    assert _taint(queue) is None


def test_a_node_that_fails_goes_behind_the_others() -> None:
    """It does not use the token."""
    queue, _ = _queue(0.1, "a", "b")
    queue.postpone("a")
    queue.postpone("unknown")
    assert (_taint(queue), "a" in queue._names, "unknown" in queue._names) == (
        "b",
        True,
        False,
    )
