"""Autoscalers over several syncs, on a cluster in memory."""

import asyncio
from typing import Final

import pytest

from controller_manager.api.autoscaling.v2 import (
    HorizontalPodAutoscalerSpec,
    MetricSpec,
)
from controller_manager.api.core.v1 import Pod, PodMeta
from controller_manager.api.json_objects import JSON
from controller_manager.api.selectors import parse_selector
from controller_manager.client.builder import Connections
from controller_manager.client.rest.client import PatchType
from controller_manager.controllers.autoscaling.podautoscaler.behavior import (
    ABOVE_MAXIMUM,
    BELOW_MINIMUM,
    BELOW_TARGET,
    FirstDecision,
    first_decision,
    reason_for,
)
from controller_manager.controllers.autoscaling.podautoscaler.selectors import Overlaps
from controller_manager.manager.manager import ControllerManager
from tests.clusters import run_manager
from tests.controllers.autoscaling.podautoscaler.cases import Case, cases
from tests.controllers.autoscaling.podautoscaler.on_cluster import (
    NAME,
    SYNC_PERIOD,
    Stage,
    config_of,
    cpu,
    external,
    observe,
    ready,
    set_queue_length,
)
from tests.controllers.custom_resources import (
    DEFINITIONS,
    SCALABLE,
    WIDGETS,
    definition,
)
from tests.controllers.user import User

ABOVE: Final = "external metric qps(nil) above target"
BELOW: Final = "All metrics below target"


def staged(
    replicas: int,
    *metrics: JSON,
    usage: tuple[str, ...] = ("0",),
    bounds: tuple[int, int] = (1, 9),
) -> Stage:
    stage = Stage()
    stage.add_target(replicas)
    stage.add_pods(ready(*usage))
    stage.add_autoscaler(list(metrics), *bounds)
    return stage


async def periods(number: float) -> None:
    await asyncio.sleep(SYNC_PERIOD * number)


async def sizes(stage: Stage, number: int) -> list[int]:
    """Return the replicas of the target after each of the next syncs."""
    found = []
    for _ in range(number):
        await periods(1)
        found.append(stage.replicas())
    return found


@pytest.mark.looptime
async def test_the_target_follows_a_load_up_at_once_and_down_after_the_window() -> None:
    stage = staged(1, external(averageValue="10"), bounds=(1, 5))
    set_queue_length(stage, 30)
    async with stage.cluster.manager(config_of(stabilization=60)) as recording:
        await periods(1.5)
        assert stage.status() == {
            "currentReplicas": 1,
            "desiredReplicas": 3,
            "currentMetrics": [current("30")],
            "conditions": [
                able(
                    "SucceededRescale",
                    "the HPA controller was able to update the target scale to 3",
                ),
                active("external metric qps(nil)"),
                within_range(),
            ],
        }
        observe(stage)
        set_queue_length(stage, 10)
        assert await sizes(stage, 5) == [3, 3, 3, 1, 1]
    assert stage.status() == {
        "currentReplicas": 1,
        "desiredReplicas": 1,
        "currentMetrics": [current("3334m")],
        "conditions": [
            able("ReadyForNewScale", "recommended size matches current size"),
            active("external metric qps(nil)"),
            within_range(),
        ],
    }
    assert stage.events() == [
        f"Normal SuccessfulRescale: New size: 1; reason: {BELOW}",
        f"Normal SuccessfulRescale: New size: 3; reason: {ABOVE}",
    ]
    written = [each.path.rpartition("/")[2] for each in recording.writes]
    assert written == ["scale", "status", "status", "scale", "status", "status"]


def current(average: str) -> JSON:
    shown = {"metric": {"name": "qps"}, "current": {"averageValue": average}}
    return {"type": "External", "external": shown}


def condition(kind: str, status: str, reason: str, message: str) -> JSON:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def able(reason: str, message: str) -> JSON:
    return condition("AbleToScale", "True", reason, message)


def active(metric: str) -> JSON:
    return condition(
        "ScalingActive",
        "True",
        "ValidMetricFound",
        f"the HPA was able to successfully calculate a replica count from {metric}",
    )


def within_range() -> JSON:
    return condition(
        "ScalingLimited",
        "False",
        "DesiredWithinRange",
        "the desired count is within the acceptable range",
    )


@pytest.mark.looptime
async def test_an_object_of_any_kind_with_a_scale_can_be_a_target() -> None:
    """A custom resource, whose definition comes after the autoscaler."""
    stage = Stage()
    stage.add_pods(ready("300m", "300m"))
    reference: JSON = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "big"}
    stage.add_autoscaler([cpu(10)], 1, 4, {"scaleTargetRef": reference})
    widget = {**reference, "spec": {"size": 2, "colour": "red"}}
    widget["metadata"] = {"name": widget.pop("name")}
    user = User(stage.cluster)
    async with stage.cluster.manager(config_of()):
        await periods(1.5)
        assert stage.conditions() == {"AbleToScale": ("False", "FailedGetScale")}
        await user.create(DEFINITIONS, definition(subresources=SCALABLE))
        await user.create(WIDGETS, widget)
        status = {"status": {"size": 2, "selector": "name=test-pod"}}
        patch, merge = user.client.patch, PatchType.MERGE
        await patch(WIDGETS, "default", "big", status, merge, "status")
        await periods(4)
        found = await user.client.get(WIDGETS, "default", "big")
    assert found["spec"] == {"size": 4, "colour": "red"}


@pytest.mark.looptime
async def test_the_metrics_count_syncs_and_drop_series_of_deleted_autoscalers() -> None:
    stage = staged(1, external(value="10"), external("jobs", value="1"))
    set_queue_length(stage, 30)
    connections = Connections(stage.cluster.transport, root_ca="PEM")
    clock, rng = stage.cluster.clock, stage.cluster.rng
    async with run_manager(connections, clock, rng, config_of()) as manager:
        await periods(2.5)
        for action in ("scale_up", "none"):
            done = {"action": action, "error": "internal"}
            assert sample(manager, "reconciliations_total", **done) == 1
        computed = {"action": "scale_up", "error": "none", "metric_type": "External"}
        # Compared with the number in the status, which is that before the change.
        assert sample(manager, "metric_computation_total", **computed) == 2
        wanted = {"namespace": "default", "hpa_name": NAME}
        assert sample(manager, "desired_replicas", **wanted) == 3
        assert sample(manager, "num_horizontal_pod_autoscalers") == 1
        stage.delete("HorizontalPodAutoscaler", NAME)
        await periods(2)
        assert sample(manager, "desired_replicas", **wanted) is None
        assert sample(manager, "num_horizontal_pod_autoscalers") == 0


def sample(manager: ControllerManager, name: str, **labels: str) -> float | None:
    full = f"horizontal_pod_autoscaler_controller_{name}"
    return manager._registry.get_sample_value(full, labels)


def pod(namespace: str = "default", **labels: str) -> Pod:
    return Pod(metadata=PodMeta(name="p", namespace=namespace, labels=labels))


@pytest.fixture(name="overlaps")
def make_overlaps() -> Overlaps:
    overlaps = Overlaps()
    for key, selector in (
        ("default/exact", "app=web"),
        ("default/narrow", "app=web,tier=front"),
        ("default/sets", "app in (web,api)"),
        ("default/none", "app=other"),
        ("other/exact", "app=web"),
    ):
        overlaps.put(key, parse_selector(selector))
    return overlaps


@pytest.mark.parametrize(
    ("pods", "keys"),
    [
        ([pod(app="web")], ["default/exact", "default/sets"]),
        (
            [pod(app="web", tier="front")],
            ["default/exact", "default/narrow", "default/sets"],
        ),
        ([pod(app="api")], ["default/sets"]),
        ([pod(app="api"), pod(app="other")], ["default/none", "default/sets"]),
        ([pod(tier="front")], []),
        ([], []),
    ],
)
def test_each_autoscaler_that_selects_one_of_the_pods_is_found(
    overlaps: Overlaps, pods: list[Pod], keys: list[str]
) -> None:
    """Only in the namespace of the pods, and in a fixed order."""
    assert overlaps.selecting("default", pods) == keys


def test_selectors_with_a_common_label_are_in_different_buckets() -> None:
    """Each is found by a label that only it has, so the cost does not grow."""
    overlaps = Overlaps()
    for number in range(100):
        selector = parse_selector(f"app=shop,part=p{number}")
        overlaps.put(f"default/{number}", selector)
    together = [len(keys) for keys in overlaps._buckets.values()]
    assert (sum(together), max(together)) == (100, 1)
    assert overlaps.selecting("default", [pod(app="shop", part="p7")]) == ["default/7"]


def test_a_changed_selector_replaces_the_former_one(overlaps: Overlaps) -> None:
    """The target of an autoscaler may change."""
    overlaps.put("default/sets", parse_selector("app=other"))
    assert overlaps.selecting("default", [pod(app="web")]) == ["default/exact"]
    found = overlaps.selecting("default", [pod(app="other")])
    assert found == ["default/none", "default/sets"]


def test_an_autoscaler_that_is_gone_selects_nothing(overlaps: Overlaps) -> None:
    for key in ("exact", "narrow", "sets", "none", "never"):
        overlaps.forget(f"default/{key}")
    overlaps.forget("other/exact")
    assert overlaps.selecting("default", [pod(app="web")]) == []
    assert vars(overlaps) == vars(Overlaps())


READ = FirstDecision(3, needs_metrics=True)
FROM_ZERO = FirstDecision(0, needs_metrics=True)
DISABLED = FirstDecision(0, is_disabled=True)


@pytest.mark.parametrize(
    ("current", "minimum", "metric", "was_zero", "expected"),
    [
        # Metrics are read only within the limits.
        (3, 1, "Resource", False, READ),
        (3, 3, "Resource", False, READ),
        (3, None, "Resource", False, READ),
        (6, 1, "Resource", False, FirstDecision(5, ABOVE_MAXIMUM)),
        (3, 4, "Resource", False, FirstDecision(4, BELOW_MINIMUM)),
        # A target at zero that no autoscaler has scaled there is left alone.
        (0, 1, "Resource", False, DISABLED),
        (0, None, "Resource", False, DISABLED),
        (0, 0, "Resource", False, DISABLED),
        # Another one is scaled up by a metric that needs no pods, or because the
        # minimum was raised.
        (0, 0, "External", True, FROM_ZERO),
        (0, 0, "Object", True, FROM_ZERO),
        (0, 0, "Resource", True, DISABLED),
        (0, 0, "Pods", True, DISABLED),
        (0, 1, "Resource", True, FROM_ZERO),
        (0, 2, "External", True, FROM_ZERO),
    ],
)
def test_the_size_alone_decides_first(
    current: int,
    minimum: int | None,
    metric: str,
    was_zero: bool,
    expected: FirstDecision,
) -> None:
    metrics = (MetricSpec(type=metric),)
    spec = HorizontalPodAutoscalerSpec(
        min_replicas=minimum, max_replicas=5, metrics=metrics
    )
    assert first_decision(spec, current, was_scaled_to_zero=was_zero) == expected


@pytest.mark.parametrize(
    ("desired", "reason"), [(4, "cpu above target"), (2, BELOW_TARGET), (3, "")]
)
def test_an_event_says_which_metric_asks_for_more(desired: int, reason: str) -> None:
    """For fewer replicas all metrics must ask."""
    assert reason_for(3, desired, "cpu") == reason


SCALED_TO_ZERO: Final = {
    "type": "ScaledToZero",
    "status": "True",
    "reason": "ScaledToZero",
    "message": "the HPA controller scaled the workload to zero",
}


CASES: Final = dict(cases())


@pytest.mark.looptime
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_one_sync_does_what_upstreams_unit_test_expects(case: Case) -> None:
    stage = Stage(case.gates)
    stage.add_target(case.replicas, case.observed)
    stage.add_pods(case.pods)
    stage.set_metrics(**case.answers)
    minimum, maximum = case.bounds
    more = {"behavior": case.behavior} if case.behavior else None
    stage.add_autoscaler(case.metrics, minimum, maximum, more)
    if case.was_scaled_to_zero:
        kind = "HorizontalPodAutoscaler"
        stage.set_status(kind, NAME, conditions=[SCALED_TO_ZERO])
    config = config_of(case.gates, case.stabilization)
    async with stage.cluster.manager(config) as recording:
        await asyncio.sleep(SYNC_PERIOD + 1)
    status = stage.status()
    scaled = case.replicas != case.expected
    assert stage.replicas() == case.expected
    assert stage.conditions() == case.conditions
    assert status.get("currentReplicas", 0) == case.replicas
    rescaled = [each for each in stage.events() if " SuccessfulRescale: " in each]
    assert len(rescaled) == scaled
    scales = [each.method for each in recording.writes if "/scale" in each.path]
    assert scales == ["PUT"] * scaled
