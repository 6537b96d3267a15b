"""The numbers in the status, and of pods while a sync writes."""

import msgspec

from controller_manager.api.apps.v1 import DaemonSetCondition, DaemonSetStatus
from controller_manager.controllers.apps.daemonset.nodes import Fit
from controller_manager.controllers.apps.daemonset.pods import calculate_status
from tests.controllers.apps.daemonset.cases import NOW, daemon_set, placed, pod


def test_each_node_counts_by_its_pod() -> None:
    """A node that need not have a pod but has one counts as misscheduled."""
    seen = placed(
        pod("a", "n1"),
        pod("b", "n2", ready=False, hash="old"),
        pod("d", "n4", since=55),
        pod("e", "n5"),
        pod("f", "n6", leaving=True),
        pod("g", "gone"),
        of=daemon_set(minReadySeconds=10),
        n4=Fit.RUN,
        n5=Fit.KEEP,
        n6=Fit.NONE,
        n7=Fit.NONE,
    )
    assert calculate_status(seen, NOW, is_processed=True) == DaemonSetStatus(
        desired_number_scheduled=4,
        current_number_scheduled=3,
        number_misscheduled=2,
        number_ready=2,
        number_available=1,
        number_unavailable=3,
        updated_number_scheduled=2,
        observed_generation=1,
    )


def test_a_node_counts_by_its_oldest_pod_even_if_that_is_leaving() -> None:
    """During a surge the new pod counts once the old one is gone."""
    seen = placed(
        pod("new", "n1", ready=False, created=2),
        pod("old", "n1", hash="old", created=1, leaving=True),
        n2=Fit.NONE,
        n3=Fit.NONE,
    )
    status = calculate_status(seen, NOW, is_processed=True)
    assert status == DaemonSetStatus(
        desired_number_scheduled=1,
        current_number_scheduled=1,
        number_ready=1,
        number_available=1,
        observed_generation=1,
    )


def test_fields_that_the_controller_does_not_count_are_kept() -> None:
    """Conditions of others, collisions, and the generation that was not processed."""
    conditions = (DaemonSetCondition(type="Custom", status="True"),)
    former = DaemonSetStatus(
        conditions=conditions, collision_count=3, observed_generation=7
    )
    obj = msgspec.structs.replace(daemon_set(), status=former)
    status = calculate_status(placed(of=obj), NOW, is_processed=False)
    assert status == DaemonSetStatus(
        conditions=conditions,
        collision_count=3,
        observed_generation=7,
        desired_number_scheduled=3,
        number_unavailable=3,
    )


def test_placed_pods_show_what_their_sync_has_written() -> None:
    """Before the cache does, so the status is not written twice."""
    before = placed(pod("a", "n1", hash="old"), pod("b", "n2"))
    after = before.after([pod("c", "n3", ready=False, bound=False)], ["a"])
    assert [each.metadata.name for each in after.on("n3")] == ["c"]
    assert (after.staying("n1"), len(after.on("n1"))) == ([], 1)
    again = after.after([], ["b"])
    assert (again.staying("n1"), again.staying("n2")) == ([], [])
    assert len(before.staying("n1")) == 1
