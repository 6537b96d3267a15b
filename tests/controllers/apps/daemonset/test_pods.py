"""Missing, failed and surplus pods of nodes."""

import pytest

from controller_manager.api.core.v1 import Pod
from controller_manager.controllers.apps.daemonset.backoff import NO_DELAYS, Delays
from controller_manager.controllers.apps.daemonset.nodes import Fit
from controller_manager.controllers.apps.daemonset.pods import (
    DaemonPods,
    Plan,
    manage_pods,
)
from tests.controllers.apps.daemonset.cases import (
    NOW,
    daemon_set,
    placed,
    placed_of,
    pod,
    summary,
)

ALL = (pod("a", "n1"), pod("b", "n2"), pod("c", "n3"))
FAILED = pod("failed", "n3", phase="Failed")
SUCCEEDED = pod("succeeded", "n3", phase="Succeeded")
SURGING = daemon_set(surge=1, unavailable=0)


def managed(seen: DaemonPods) -> tuple[list[str], list[str]]:
    return summary(manage_pods(seen, NO_DELAYS, NOW))


def test_a_node_that_must_have_a_pod_gets_one() -> None:
    """Not while it has a pod, even a pod that is being deleted."""
    assert managed(placed()) == (["n1", "n2", "n3"], [])
    assert managed(placed(*ALL)) == ([], [])
    assert managed(placed(*ALL[:2])) == (["n3"], [])
    assert managed(placed(*ALL[:2], pod("c", "n3", leaving=True))) == ([], [])
    assert managed(placed(*ALL[:2], pod("c", "n3", bound=False))) == ([], [])


def test_a_pod_that_has_ended_and_is_being_deleted_does_not_count() -> None:
    """A finalizer may keep it; its node needs a pod now."""
    for phase in ("Failed", "Succeeded"):
        ended = pod("c", "n3", leaving=True, phase=phase)
        assert managed(placed(*ALL[:2], ended)) == (["n3"], [])


def test_pods_are_deleted_where_none_may_run() -> None:
    """Also a pod that is not bound yet; a pod stays if no taint ends it."""
    others = (pod("d", "n4"), pod("e", "n4", bound=False), pod("f", "n5"))
    seen = placed(*ALL, *others, n4=Fit.NONE, n5=Fit.KEEP)
    assert managed(seen) == ([], ["d", "e"])
    assert managed(placed(*ALL, pod("d", "n4", leaving=True), n4=Fit.NONE)) == ([], [])


def test_an_unbound_pod_for_a_node_that_is_gone_is_deleted() -> None:
    """The pod garbage collector deletes a bound pod."""
    others = (pod("d", "n4", bound=False), pod("e", "n5"))
    assert managed(placed(*ALL, *others)) == ([], ["d"])


def test_the_oldest_of_several_pods_stays() -> None:
    """A pod that has a node counts as older."""
    others = (
        pod("a0", "n1", created=9),
        pod("b0", "n2", bound=False, created=0),
        pod("c0", "n3", leaving=True),
    )
    older = (pod("a", "n1", created=1), pod("b", "n2", created=5), pod("c", "n3"))
    assert managed(placed(*others, *older)) == ([], ["a0", "b0"])


def test_pods_that_have_ended_are_deleted() -> None:
    """A new pod is created when the old one is gone."""
    assert managed(placed(*ALL[:2], FAILED)) == ([], ["failed"])
    assert managed(placed(*ALL[:2], SUCCEEDED)) == ([], ["succeeded"])
    assert managed(placed(*ALL[:2], FAILED, SUCCEEDED)) == ([], ["failed", "succeeded"])


def test_a_failed_pod_stays_while_there_is_a_delay() -> None:
    """Another sync comes when the delay ends; a succeeded pod never waits."""
    delays = Delays({"n3": 4.0, "n1": 1.0}, {})
    for of in (None, SURGING):
        plan = manage_pods(placed(*ALL[:2], FAILED, SUCCEEDED, of=of), delays, NOW)
        assert (summary(plan), plan.requeue_after) == (([], ["succeeded"]), 4.0)


def test_a_node_whose_failed_pod_others_deleted_gets_none_before_the_delay_ends() -> (
    None
):
    """Also with surge, beside a pod that is being deleted."""
    delays = Delays({"n3": 4.0, "n1": 1.0}, {"n3": 4.0})
    for of in (None, SURGING):
        plan = manage_pods(placed(*ALL[:2], of=of), delays, NOW)
        assert plan == Plan(requeue_after=4.0)
    leaving = pod("c", "n3", leaving=True)
    plan = manage_pods(placed(*ALL[:2], leaving, of=SURGING), delays, NOW)
    assert plan == Plan(requeue_after=4.0)


def test_failed_pods_of_one_node_are_deleted_one_by_one() -> None:
    """The deletion of the first begins a delay for the second."""
    both = (pod("c", "n3", phase="Failed"), pod("d", "n3", phase="Failed"))
    assert managed(placed(*ALL[:2], *both)) == ([], ["c"])
    assert managed(placed(*ALL[:2], *both, of=SURGING)) == (["n3"], ["c"])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (pod("old", "n3", hash="old"), pod("new", "n3", ready=False), []),
        (pod("old", "n3", hash="old"), pod("new", "n3"), ["old"]),
        (
            pod("old", "n3", hash="old", ready=False),
            pod("new", "n3", ready=False),
            ["old"],
        ),
    ],
)
def test_with_surge_a_node_has_two_pods_until_one_is_superseded(
    old: Pod, new: Pod, expected: list[str]
) -> None:
    """The old pod is deleted if the new pod is available, or if it is not ready."""
    assert managed(placed(*ALL[:2], old, new, of=SURGING)) == ([], expected)


def test_with_surge_a_node_has_one_pod_of_each_kind_at_most() -> None:
    """The oldest of the old and the oldest of the new ones."""
    pods = [
        pod("old", "n3", hash="old", created=1),
        pod("older", "n3", hash="older", created=0),
        pod("new", "n3", ready=False, created=2),
        pod("newer", "n3", ready=False, created=3),
    ]
    seen = placed(*ALL[:2], *pods, of=SURGING)
    assert managed(seen) == ([], ["newer", "old"])


def test_with_surge_a_node_gets_a_pod_while_the_last_one_is_leaving() -> None:
    """Without surge the node waits until the last pod is gone."""
    leaving = pod("c", "n3", leaving=True)
    assert managed(placed(*ALL[:2], leaving, of=SURGING)) == (["n3"], [])
    assert managed(placed(*ALL[:2], leaving)) == ([], [])


def test_one_sync_creates_and_deletes_at_most_250_pods() -> None:
    """The events of these pods cause the next sync."""
    nodes = [f"m{number:03}" for number in range(600)]
    fits = {node: Fit.RUN if node < "m300" else Fit.NONE for node in nodes}
    pods = [pod(f"of-{node}", node) for node in nodes if node >= "m300"]
    plan = manage_pods(placed_of((*ALL, *pods), fits), NO_DELAYS, NOW)
    assert (len(plan.nodes), len(plan.deletions)) == (250, 250)


def test_nothing_to_do_is_an_empty_plan() -> None:
    """So a sync without changes writes nothing."""
    assert manage_pods(placed(*ALL), NO_DELAYS, NOW) == Plan()
    assert Plan().is_empty
