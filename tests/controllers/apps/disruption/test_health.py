"""The numbers of a budget, as tables, without a cluster."""

from typing import Any

import msgspec
import pytest

from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import Condition
from controller_manager.api.policy.v1 import PodDisruptionBudgetStatus
from controller_manager.api.scalars import IntOrStringError
from controller_manager.client.rest.transport import Request
from controller_manager.controllers.apps.disruption.health import (
    Health,
    assess,
    calculated_status,
    desired_healthy,
    failed_status,
    is_limited,
    needs_scales,
)
from controller_manager.controllers.apps.disruption.stale_pods import stale_since
from tests.clusters import Cluster
from tests.controllers.apps.disruption.builders import (
    NOW,
    at,
    budget,
    pod_json,
    running,
)
from tests.controllers.builders import pod
from tests.controllers.user import settle
from tests.meddler import Meddler


@pytest.mark.parametrize(
    ("spec", "expected", "desired"),
    [
        ({"minAvailable": 2}, 5, 2),
        ({"minAvailable": 9}, 5, 9),
        ({"minAvailable": "50%"}, 5, 3),
        ({"minAvailable": "0%"}, 5, 0),
        ({"minAvailable": "100%"}, 5, 5),
        ({"maxUnavailable": 1}, 5, 4),
        ({"maxUnavailable": 9}, 5, 0),
        ({"maxUnavailable": "10%"}, 5, 4),
        ({"maxUnavailable": "30%"}, 5, 3),
        ({"maxUnavailable": "100%"}, 5, 0),
        ({"maxUnavailable": "50%"}, 0, 0),
        ({}, 0, 0),
    ],
)
def test_percentages_are_rounded_up(spec: JSON, expected: int, desired: int) -> None:
    """Also of the unavailable pods: a budget allows one more rather than none."""
    assert desired_healthy(budget(**spec), expected) == desired


@pytest.mark.parametrize(
    ("spec", "needs", "limited"),
    [
        ({"minAvailable": 0}, False, True),
        ({"minAvailable": "0%"}, True, True),
        ({"maxUnavailable": 0}, True, True),
        ({"maxUnavailable": "1%"}, True, True),
        ({"maxUnavailable": None}, False, False),
        ({"minAvailable": None, "maxUnavailable": None}, False, False),
        ({}, False, False),
    ],
)
def test_numbers_need_no_scale(spec: JSON, needs: bool, limited: bool) -> None:
    """A budget with neither limit expects no pods; zero is a limit and null is none."""
    assert (needs_scales(budget(**spec)), is_limited(budget(**spec))) == (
        needs,
        limited,
    )


def test_a_text_that_is_no_percentage_is_named() -> None:
    """An API server does not store it."""
    with pytest.raises(IntOrStringError, match="'half'"):
        assess(budget(minAvailable="half"), [], 3, NOW)


def test_ready_pods_that_stay_are_healthy() -> None:
    gone = [pod("d", deleted=at(0)), pod("e", ready=False, deleted=at(0))]
    pods = [pod("a"), pod("b"), pod("c", ready=False), *gone]
    found = assess(budget(minAvailable=1), pods, 5, NOW)
    assert found == Health(expected=5, desired=1, current=2, disrupted={})
    assert found.allowed == 1


@pytest.mark.parametrize(
    ("expected", "desired", "current", "allowed"),
    [(3, 2, 3, 1), (3, 2, 2, 0), (3, 2, 1, 0), (0, 0, 2, 0), (1, 0, 2, 2)],
)
def test_pods_above_the_desired_number_may_be_evicted(
    expected: int, desired: int, current: int, allowed: int
) -> None:
    """No pod may be evicted while none is expected."""
    assert Health(expected, desired, current, {}).allowed == allowed


def test_a_pod_whose_eviction_was_allowed_does_not_count_for_two_minutes() -> None:
    ages = {
        "fresh": 10,
        "older": 100,
        "late": 120,
        "later": 500,
        "going": 10,
        "gone": 10,
    }
    pods = [*map(pod, ("fresh", "older", "late", "other"))]
    pods += [pod("later", ready=False), pod("going", deleted=at(0))]
    status = {"disruptedPods": {name: at(-age) for name, age in ages.items()}}
    assert assess(budget(status, maxUnavailable=1), pods, 6, NOW) == Health(
        expected=6,
        desired=5,
        current=2,
        disrupted={"fresh": at(-10), "older": at(-100)},
        not_deleted=("late", "later"),
        requeue_after=20,
    )


def test_a_recorded_pod_without_a_time_is_dropped() -> None:
    """Go may write null for a time."""
    status = {"disruptedPods": {"a": None}}
    found = assess(budget(status, minAvailable=0), [pod("a")], 1, NOW)
    assert found == Health(expected=1, desired=0, current=1, disrupted={})


def _condition(status: str, reason: str, **more: Any) -> Condition:
    return Condition(
        type="DisruptionAllowed",
        status=status,
        reason=reason,
        **{"observed_generation": 2, "last_transition_time": at(0), **more},
    )


def test_the_status_has_the_counted_numbers() -> None:
    other = Condition(type="Other", status="True", reason="Users")
    old = {"conditions": [msgspec.to_builtins(other)], "observedGeneration": 1}
    health = Health(4, 2, 3, {"a": at(-1)})
    assert calculated_status(budget(old), health, NOW) == PodDisruptionBudgetStatus(
        observed_generation=2,
        disrupted_pods={"a": at(-1)},
        disruptions_allowed=1,
        current_healthy=3,
        desired_healthy=2,
        expected_pods=4,
        conditions=(other, _condition("True", "SufficientPods")),
    )


def test_a_condition_keeps_its_time_as_long_as_it_keeps_its_status() -> None:
    before = _condition("False", "SyncFailed", last_transition_time=at(-60))
    old = {"conditions": [msgspec.to_builtins(before)]}
    found = calculated_status(budget(old), Health(2, 2, 2, {}), NOW)
    after = _condition("False", "InsufficientPods", last_transition_time=at(-60))
    assert found.conditions == (after,)


def test_a_failure_keeps_the_numbers_and_allows_nothing() -> None:
    """The observed generation stays, too: the numbers are those of that generation."""
    before = _condition("True", "SufficientPods", last_transition_time=at(-60))
    numbers = {
        "observedGeneration": 1,
        "disruptedPods": {"a": at(-1)},
        "currentHealthy": 4,
        "desiredHealthy": 2,
        "expectedPods": 4,
    }
    conditions = [msgspec.to_builtins(before)]
    old = {**numbers, "disruptionsAllowed": 2, "conditions": conditions}
    failed = _condition(
        "False", "SyncFailed", message="no scale", observed_generation=1
    )
    assert failed_status(budget(old), "no scale", NOW) == PodDisruptionBudgetStatus(
        observed_generation=1,
        disrupted_pods={"a": at(-1)},
        disruptions_allowed=0,
        current_healthy=4,
        desired_healthy=2,
        expected_pods=4,
        conditions=(failed,),
    )


TARGET = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


LONG_AGO = {**TARGET, "lastTransitionTime": at(-999)}


@pytest.mark.parametrize(
    ("condition", "phase", "metadata", "since"),
    [
        ({**TARGET, "lastTransitionTime": at(0)}, "Running", {}, at(120)),
        (LONG_AGO, "Running", {}, at(-879)),
        (LONG_AGO, "Pending", {}, at(-879)),
        ({**TARGET, "lastTransitionTime": None}, "Running", {}, "0001-01-01T00:00:00Z"),
        ({**LONG_AGO, "status": "False"}, "Running", {}, None),
        ({**LONG_AGO, "type": "PodScheduled"}, "Running", {}, None),
        # The kubelet may take any time.
        ({**LONG_AGO, "reason": "TerminationByKubelet"}, "Running", {}, None),
        # The disruption has taken place.
        (LONG_AGO, "Succeeded", {}, None),
        (LONG_AGO, "Failed", {}, None),
        (LONG_AGO, "Running", {"deletionTimestamp": at(-1)}, None),
    ],
)
def test_a_condition_is_stale_after_two_minutes(
    condition: JSON, phase: str, metadata: JSON, since: str | None
) -> None:
    body = pod_json()
    body["metadata"] |= metadata
    body["status"] = {"phase": phase, "conditions": [condition]}
    assert _stale_since(msgspec.convert(body, Pod)) == since


def _stale_since(pod: Pod) -> str | None:
    since = stale_since(pod)
    return None if since is None else since.strftime("%04Y-%m-%dT%H:%M:%SZ")


@pytest.mark.looptime
async def test_a_stale_condition_is_reset(cluster: Cluster) -> None:
    async with running(cluster) as (guard, recording):
        await guard.add_pods("a")
        began = "2026-01-01T00:00:00Z"
        await guard.set_condition("a", **TARGET, lastTransitionTime=began)
        before = await guard.conditions_of("a")
        await settle(118)
        assert await guard.conditions_of("a") == before
        await settle(10)
        found = await guard.conditions_of("a")
        assert found["DisruptionTarget"] == {
            "type": "DisruptionTarget",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": "2026-01-01T00:02:00Z",
            "observedGeneration": 1,
        }
        assert found["Ready"] == before["Ready"]
    assert [(each.method, each.status) for each in recording.writes] == [("PATCH", 200)]


@pytest.mark.looptime
async def test_a_condition_of_before_the_start_is_reset(cluster: Cluster) -> None:
    """The two minutes count from the condition, not from the start."""
    async with running(cluster) as (guard, _):
        await guard.add_pods("a")
        began = "2026-01-01T00:00:00Z"
        await guard.set_condition("a", **TARGET, lastTransitionTime=began)
    await settle(200)
    async with running(cluster) as (guard, _):
        await settle(1)
        found = (await guard.conditions_of("a"))["DisruptionTarget"]
        assert (found["status"], found.get("reason")) == ("False", None)


@pytest.mark.looptime
async def test_a_pod_that_is_evicted_again_keeps_its_time(cluster: Cluster) -> None:
    """The pod has changed since it was cached; the new condition is not stale."""
    meddler = Meddler(cluster.transport)
    async with running(cluster, meddler) as (guard, recording):
        await guard.add_pods("a")

        async def set_again(request: Request) -> None:
            if request.method == "PATCH" and "/pods/" in request.path:
                meddler.meddle = None
                again = "2026-01-01T00:02:01Z"
                await guard.set_condition("a", **TARGET, lastTransitionTime=again)

        meddler.meddle = set_again
        began = "2026-01-01T00:00:01Z"
        await guard.set_condition("a", **TARGET, lastTransitionTime=began)
        await settle(125)
        found = (await guard.conditions_of("a"))["DisruptionTarget"]
        assert found == {**found, **TARGET}
        assert [each.status for each in recording.writes] == [409]
        await settle(120)
        found = (await guard.conditions_of("a"))["DisruptionTarget"]
        assert found["status"] == "False"
