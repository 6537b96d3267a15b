"""The functions return the results of upstream's functions, row by row."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller_manager.api.autoscaling.v2 import HPAScalingRules
from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.controllers.autoscaling.podautoscaler import replica_calculator
from controller_manager.controllers.autoscaling.podautoscaler.behavior import (
    History,
    Recommendation,
    ScaleEvent,
    ScalingRules,
    limited,
    limited_by_rate,
    stabilization,
    stabilized,
    stabilized_both_ways,
)
from controller_manager.controllers.autoscaling.podautoscaler.pods import (
    ComputationError,
    PodMetric,
    PodSample,
    Readiness,
    Thresholds,
    Tolerances,
    requested,
)
from tests.controllers.autoscaling.podautoscaler.on_cluster import (
    SYNC_PERIOD,
    PodOf,
    Stage,
    config_of,
    cpu,
    of_pods,
)

TABLE: dict[str, Any] = json.loads(
    (Path(__file__).parents[3] / "data" / "hpa-replicas.json").read_text()
)
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
READINESS = Readiness(timedelta(seconds=300), timedelta(seconds=30))

Row = JSON


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def pod_of(row: Row) -> Pod:
    conditions = []
    if "ready" in row:
        since = format_time(ago(row["readySinceSecondsAgo"]))
        conditions = [
            {"type": "Ready", "status": row["ready"], "lastTransitionTime": since}
        ]
    containers = [
        {"name": name, "resources": {"requests": {"cpu": amount} if amount else {}}}
        for name, amount in row["cpuRequests"].items()
    ]
    metadata = {"name": row["name"]}
    if row.get("deleting"):
        metadata["deletionTimestamp"] = format_time(NOW)
    status: Row = {"phase": row["phase"], "conditions": conditions}
    if "startedSecondsAgo" in row:
        status["startTime"] = format_time(ago(row["startedSecondsAgo"]))
    pod = {"metadata": metadata, "spec": {"containers": containers}, "status": status}
    return msgspec.convert(pod, Pod)


def sample_of(row: Row) -> PodSample:
    metrics = {
        name: PodMetric(
            each["milli"],
            ago(each["secondsAgo"]),
            timedelta(seconds=each["windowSeconds"]),
        )
        for name, each in row.get("metrics", {}).items()
    }
    resource = "" if row["function"] == "GetMetricReplicas" else "cpu"
    pods = [pod_of(each) for each in row.get("pods", ())]
    return PodSample(pods=pods, metrics=metrics, now=NOW, resource=resource)


def tolerances_of(row: Row) -> Tolerances:
    return Tolerances(up=row["toleranceUp"], down=row["toleranceDown"])


def utilization(row: Row) -> replica_calculator.Proposal:
    pods = [pod_of(each) for each in row.get("pods", ())]
    return replica_calculator.replicas_for_utilization(
        sample_of(row),
        lambda: requested(pods, "cpu", row.get("container", ""), pod_level=True),
        row["currentReplicas"],
        row["target"],
        Thresholds(tolerances_of(row), READINESS),
    )


def average(row: Row) -> replica_calculator.Proposal:
    thresholds = Thresholds(tolerances_of(row), READINESS)
    sample = sample_of(row)
    return replica_calculator.replicas_for_average(
        sample, row["currentReplicas"], row["target"], thresholds
    )


def value(row: Row) -> replica_calculator.Proposal:
    pods = [pod_of(each) for each in row.get("pods", ())]
    current, target = row["currentReplicas"], row["target"]
    return replica_calculator.replicas_for_value(
        pods,
        replica_calculator.total(row["values"]),
        current,
        target,
        tolerances_of(row),
    )


def share(row: Row) -> replica_calculator.Proposal:
    """Compute for a target with as many pods as replicas.

    With other pods this build decides otherwise, and upstream's function has no number
    for the replicas.
    """
    current, target = row["currentReplicas"], row["target"]
    usage, tolerances = replica_calculator.total(row["values"]), tolerances_of(row)
    return replica_calculator.replicas_for_share(
        usage, current, current, target, tolerances
    )


FUNCTIONS = {
    "GetResourceReplicas": utilization,
    "GetRawResourceReplicas": average,
    "GetMetricReplicas": average,
    "GetObjectMetricReplicas": value,
    "GetExternalMetricReplicas": value,
    "GetObjectPerPodMetricReplicas": share,
    "GetExternalPerPodMetricReplicas": share,
}


def named(rows: list[Row]) -> list[Any]:
    return [
        pytest.param(row, id=f"{number}: {row.get('name', '')}")
        for number, row in enumerate(rows)
    ]


NOT_READ = "unable to get metric"
"""The beginning of the error of a row without metrics."""

UNREAD = [row for row in TABLE["replicas"] if NOT_READ in row.get("error", "")]

SPECS: dict[str, JSON] = {
    "GetResourceReplicas": cpu(50),
    "GetRawResourceReplicas": {
        "type": "Resource",
        "resource": {
            "name": "cpu",
            "target": {"type": "AverageValue", "averageValue": "100m"},
        },
    },
    "GetMetricReplicas": of_pods("100m", "m"),
}
"""Metrics for which the functions compute."""


@pytest.mark.looptime
@pytest.mark.parametrize("row", named(UNREAD))
async def test_missing_metrics_are_an_error_as_upstream(row: Row) -> None:
    stage = Stage()
    stage.add_target(row["currentReplicas"])
    stage.add_pods(tuple(PodOf() for _ in row["pods"]))
    stage.set_metrics(pods={"m": {}})
    stage.add_autoscaler([SPECS[row["function"]]], 1, 10)
    async with stage.cluster.manager(config_of()):
        await asyncio.sleep(SYNC_PERIOD + 1)
    found = {each["type"]: each for each in stage.status()["conditions"]}
    assert found["ScalingActive"]["message"].endswith(f": {row['error']}")
    assert stage.replicas() == row["currentReplicas"]


COMPUTED = [row for row in TABLE["replicas"] if NOT_READ not in row.get("error", "")]


@pytest.mark.parametrize("row", named(COMPUTED))
def test_a_metric_asks_for_as_many_replicas_as_upstream_computes(row: Row) -> None:
    compute = FUNCTIONS[row["function"]]
    if "error" in row:
        with pytest.raises(ComputationError) as raised:
            compute(row)
        assert str(raised.value) == row["error"]
        return
    percent = row["utilization"] if compute is utilization else None
    assert compute(row) == replica_calculator.Proposal(
        row["replicas"], row["usageMilli"], percent
    )


@pytest.mark.parametrize("row", named(TABLE["limits"]))
def test_limits_without_a_behavior_are_upstreams(row: Row) -> None:
    result = limited(row["current"], row["desired"], row["min"], row["max"])
    assert (result.replicas, result.reason) == (row["replicas"], row["reason"])


def rules_of(row: Row) -> ScalingRules:
    return ScalingRules(
        up=msgspec.convert(row["up"], HPAScalingRules),
        down=msgspec.convert(row["down"], HPAScalingRules),
    )


def events_of(rows: list[Row] | None) -> tuple[ScaleEvent, ...]:
    return tuple(
        ScaleEvent(each["change"], ago(each["secondsAgo"])) for each in rows or ()
    )


@pytest.mark.parametrize("row", named(TABLE["rates"]))
def test_rates_of_a_behavior_are_upstreams(row: Row) -> None:
    history = History(
        scale_ups=events_of(row["upEvents"]), scale_downs=events_of(row["downEvents"])
    )
    bounds = row["min"], row["max"]
    result = limited_by_rate(
        row["current"], row["desired"], bounds, rules_of(row), history, NOW
    )
    assert (result.replicas, result.reason) == (row["replicas"], row["reason"])


def past_of(row: Row) -> History:
    past = row["past"] or ()
    return History(
        tuple(
            Recommendation(each["replicas"], ago(each["secondsAgo"])) for each in past
        )
    )


@pytest.mark.parametrize("row", named(TABLE["stabilise"]))
def test_past_recommendations_hold_back_a_scaling_down_as_upstream(row: Row) -> None:
    """The highest recommendation of the window counts."""
    window = timedelta(seconds=row["windowSeconds"])
    assert stabilized(past_of(row), row["desired"], NOW, window) == row["replicas"]


@pytest.mark.parametrize("row", named(TABLE["stabiliseRules"]))
def test_windows_of_a_behavior_are_upstreams(row: Row) -> None:
    """The number agrees, and where it is another than desired, the reason does."""
    rules = ScalingRules(
        up=HPAScalingRules(stabilization_window_seconds=row["upWindowSeconds"]),
        down=HPAScalingRules(stabilization_window_seconds=row["downWindowSeconds"]),
    )
    current, desired = row["current"], row["desired"]
    stable = stabilized_both_ways(past_of(row), current, desired, NOW, rules.windows)
    assert stable == row["replicas"]
    reason, _ = stabilization(current, desired, stable, by_rules=True)
    assert reason == (row["reason"] if stable != desired else "ReadyForNewScale")


@pytest.mark.parametrize(
    ("current", "desired", "stable", "words"),
    [
        (2, 3, 2, "lower than current one, applying the lowest"),
        (3, 1, 3, "higher than current one, applying the highest"),
    ],
)
def test_a_number_that_is_held_back_is_explained(
    current: int, desired: int, stable: int, words: str
) -> None:
    _, message = stabilization(current, desired, stable, by_rules=True)
    assert message == f"recent recommendations were {words} recent recommendation"
