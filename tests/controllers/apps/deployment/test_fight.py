"""A user and the deployment controller that disagree for ever, in the simulation."""

import asyncio

import pytest

from tests.simulation import runner
from tests.simulation.runner import play
from tests.simulation.world import NAMESPACE, World


@pytest.mark.slow
def test_a_fight_that_never_ends_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user scales a replica set, and its deployment scales it back."""

    async def scale_for_ever(world: World) -> None:
        while True:
            for each in world.stored("replicasets", NAMESPACE):
                world.change(
                    "replicasets", each, lambda obj: obj["spec"].update(replicas=9)
                )
            await asyncio.sleep(60)

    async def clean_up(world: World) -> None:
        world._start_task(scale_for_ever(world))

    monkeypatch.setattr(runner, "OPERATIONS", 0)
    monkeypatch.setattr(runner, "PATIENCE", 900.0)
    monkeypatch.setattr(World, "clean_up", clean_up)
    users = frozenset(("deployment-controller",))
    violations = [each[14:] for each in play(3, frozenset(), users=users).violations]
    pods = (
        "existence returned 30 times: "
        "created by replicaset-controller, deleted by replicaset-controller"
    )
    scaled = "spec.replicas returned 30 times: 9 by another client"
    back = "by deployment-controller"
    assert violations == [
        "the end: still writing after 900 s",
        f"the end: pods default/web-6bdf798dd6-*: {pods}",
        f"the end: pods default/worker-75bf985f6d-*: {pods}",
        f"the end: replicasets default/api-7749756756: {scaled}, 5 {back}",
        f"the end: replicasets default/web-6bdf798dd6: {scaled}, 3 {back}",
    ]
