"""The strategy Recreate."""

import pytest

from controller_manager.controllers.apps.deployment.rollout import Rollout
from controller_manager.controllers.apps.deployment.scaling import (
    max_surge,
    max_unavailable,
    old_pods_running,
    plan_scale_down,
    plan_scale_up,
)
from tests.controllers.builders import deployment, pod, replica_set


def test_recreate_has_neither_surge_nor_unavailability() -> None:
    """It creates all pods together, after all old pods are gone."""
    subject = deployment(4, strategy={"type": "Recreate"})
    assert (max_surge(subject), max_unavailable(subject)) == (0, 0)
    old, new = replica_set("o", 4, 4), replica_set("newest", 0)
    rollout = Rollout(subject, new, (old,))
    assert [each.replicas for each in plan_scale_down(rollout)] == [0]
    assert [each.replicas for each in plan_scale_up(rollout)] == [4]


@pytest.mark.parametrize(
    ("phase", "running"),
    [("Running", True), ("Pending", True), ("Unknown", True), ("Failed", False)],
)
def test_recreate_waits_for_pods_that_have_not_ended(phase: str, running: bool) -> None:
    """A terminating pod runs until it is gone; an ended one does not."""
    old = replica_set("o", 0)
    rollout = Rollout(deployment(4), None, (old,))
    assert old_pods_running(rollout, [pod(phase=phase)]) is running
