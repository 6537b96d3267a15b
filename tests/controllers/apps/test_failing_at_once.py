"""Pods that fail as soon as they exist are replaced with a growing delay."""

import pytest

from controller_manager.control.creation_delays import FailuresAtOnce
from controller_manager.options.config import Config
from tests.clusters import EPOCH, make_config
from tests.controllers.apps.failing_node import Failing, Ticking
from tests.controllers.builders import pod, replica_set
from tests.controllers.scenarios import Scenario, scenarios

REPLICAS = (
    "deployment-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
)


def config(kind: str = "") -> Config:
    names = ("statefulset-controller",) if kind == "sets" else REPLICAS
    return make_config(controllers=(*names, "taint-eviction-controller"))


@pytest.mark.looptime
@scenarios("apps/failing_at_once")
async def test_failing_pods_are_delayed(scenario: Scenario) -> None:
    await scenario.play(Failing, config)


def test_the_delay_ends_at_fifteen_minutes() -> None:
    clock = Ticking()
    failures = FailuresAtOnce(clock)
    owner = replica_set("web", 1)
    pods, delays = [pod("p0", phase="Failed")], []
    for number in range(1, 15):
        allowance = failures.allowance(owner, pods, EPOCH)
        delays.append(allowance.seconds)
        clock.seconds += allowance.seconds or 0.0
        assert failures.allowance(owner, pods, EPOCH).most in (None, 1)
        pods.append(pod(f"p{number}", phase="Failed"))
    assert delays == [None, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900]


def test_nothing_is_remembered_of_a_failed_pod_that_is_gone() -> None:
    """The sync that counts it may be the last one of its owner."""
    failures, owner = FailuresAtOnce(Ticking()), replica_set("web", 1)
    stays, goes, seen = (pod(each, phase="Failed") for each in ("a", "b", "c"))
    failures.allowance(owner, [stays, seen], EPOCH)
    for each in (goes, seen):
        failures.gone("default/web", each)
    assert failures.allowance(owner, [stays], EPOCH).seconds == 1
    assert failures._failures["default/web"].known == {stays.metadata.uid}
