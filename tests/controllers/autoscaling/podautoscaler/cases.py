"""Single syncs of an autoscaler, as rows: the rows of upstream's horizontal_test.go.

Name | replicas -> expected replicas | metrics | pods | the rest. A pod has its CPU
usage, its request after a colon, and its states. `qps` is the answer of the metrics API
for the metric that is not CPU, and `share` is an external metric or one of an object,
for each pod. Without words about conditions all of them are fine after a change.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from controller_manager.api.json_objects import JSON
from tests.controllers.autoscaling.podautoscaler.on_cluster import (
    PodOf,
    container_cpu,
    cpu,
    external,
    of_object,
    of_pods,
)

ROWS: Final = """
up | 3->5 | cpu 30 | three |
up, unready pods count as idle | 3->4 | cpu 30 | 300m/unready 500m 700m |
up, hot pods count as idle | 3->4 | cpu 30 | 300m/hot 500m 700m |
up, failed pods do not count | 2->4 | cpu 30 | 500m 700m -/unready/failed*2 |
up, pods that are deleted do not count
  | 2->4 | cpu 30 | 500m 700m -/unready/leaving*2 |
unready pods bring the usage back | 3->3 | cpu 30 | 400m 500m/unready*2 | stays
hot pods bring the usage back | 3->3 | cpu 30 | 400m 500m/hot*2 | stays
one container of the pods | 3->5 | container 30 | three |
a custom metric | 3->4 | pods 15 | three | qps=20,10,30
a custom metric of unready and hot pods counts in full
  | 3->6 | pods 15 | 1*2 -/unready/hot | qps=50,10,30
a custom metric asks for more than the maximum
  | 3->6 | pods 15 | -/unready/hot 1 -/unready/hot
  | qps=50,15,30 limited=TooManyReplicas
an object's value | 3->4 | object value 15 | three | qps=20
an object's value for each pod | 3->4 | object average 10 | three | qps=40
an external value | 3->4 | external value 6666m | three | qps=8600m
an external value for each pod | 3->4 | external average 2222m | three | qps=8600m

down | 5->3 | cpu 50 | five | at-once
down, one container | 5->3 | container 50 | five | at-once
down, unready pods are left out
  | 5->2 | cpu 50 | 100m 300m 500m 250m/unready*2 | at-once
down, hot pods are left out | 5->2 | cpu 50 | 100m 300m 500m 250m/hot*2 | at-once
down, failed pods do not count | 5->3 | cpu 50 | five -/unready/failed*2 | at-once
down, pods that are deleted do not count
  | 5->3 | cpu 50 | five -/unready/leaving*2 | at-once
a custom metric, down | 5->3 | pods 20 | five | qps=12,12,12,12,12 at-once
an object's value, down | 5->3 | object value 20 | five | qps=12 at-once
an object's value for each pod, down
  | 5->3 | object average 20 | five | qps=60 at-once
an external value, down | 5->3 | external value 14400m | five | qps=8600m at-once
an external value for each pod, down
  | 5->3 | external average 3 | five | qps=8600m at-once
down, but the number that was found counts for five minutes
  | 5->5 | cpu 50 | five | stabilized

within the tolerance | 3->3 | cpu 100 | near | stays
within the tolerance: a custom metric | 3->3 | pods 20 | three | qps=20,20,21 stays
within the tolerance: an object | 3->3 | object value 20 | three | qps=20050m stays
within the tolerance: an object for each pod
  | 3->3 | object average 20 | three | qps=62 stays
within the tolerance: an external value
  | 4->4 | external value 8666m | three 300m | qps=8600m stays
within the tolerance: an external value for each pod
  | 4->4 | external average 2200m | | qps=8600m stays
more pods than replicas | 4->4 | cpu 50 | 500m*5 | bounds=1..8 observed=5 stays

one pod more | 10->10 | share 10 | | qps=100 bounds=2..20 observed=11 at-once stays
a large surge, the load is not exactly the target
  | 10->10 | share 10 | | qps=105 bounds=2..20 observed=13 at-once stays
pods that terminate
  | 5->5 | share 10 | | qps=50 bounds=2..20 observed=10 at-once stays
pods that terminate, the load is that of all
  | 5->10 | share 10 | | qps=100 bounds=2..20 observed=10 at-once
fewer pods, within the tolerance
  | 11->11 | share 10 | | qps=100 bounds=2..20 observed=10 at-once stays
fewer pods, too many replicas
  | 20->10 | share 10 | | qps=100 bounds=2..20 observed=10 at-once
no pods yet | 10->10 | share 10 | | qps=105 bounds=2..20 observed=0 at-once stays
the load asks for as many as there are
  | 10->12 | share 10 | | qps=120 bounds=2..20 observed=12 at-once
the load asks for more
  | 10->15 | share 10 | | qps=150 bounds=2..20 observed=11 at-once
the load asks for fewer
  | 10->7 | share 10 | | qps=70 bounds=2..20 observed=11 at-once
the surge is above the maximum
  | 6->6 | external average 10 | | qps=60 observed=7 stays
the surge is above the minimum, the load is below it
  | 2->2 | external average 10 |
  | qps=1 observed=3 at-once stays limited=TooFewReplicas
another metric asks for more than the surge
  | 3->5 | external average 10 + cpu 30 | three | qps=30 observed=4
another metric asks for fewer than the surge
  | 5->5 | cpu 50 + external average 10 | five | qps=50 observed=6 at-once stays

a tolerance of 1 per cent upwards
  | 3->4 | cpu 100 | near | behavior={"scaleUp":{"tolerance":"0.01"}}
a tolerance of 90 per cent downwards
  | 3->3 | cpu 100 | 300m*3 | behavior={"scaleDown":{"tolerance":"0.9"}} stays
the gate of tolerances is off | 3->3 | cpu 100 | near
  | gates=-HPAConfigurableTolerance behavior={"scaleUp":{"tolerance":"0.01"}} stays

down to the minimum | 3->2 | cpu 90 | 10m:900m 95m 10m:1100m
  | bounds=2..5 at-once limited=TooFewReplicas
down to the minimum, nothing is used
  | 3->2 | cpu 90 | 0*3 | bounds=2..5 at-once limited=TooFewReplicas
up to the maximum
  | 3->5 | cpu 90 | 8 9500m 1 | bounds=2..5 limited=TooManyReplicas
a target at zero is left alone
  | 0->0 | cpu 90 | | bounds=3..5 failed=ScalingDisabled
below the minimum | 2->3 | cpu 90 | | bounds=3..5 unread
above the maximum | 10->5 | cpu 90 | | bounds=3..5 unread
as fast as a policy allows
  | 3->24 | cpu 10 | small | bounds=1..100 sevenfold limited=ScaleUpLimit
the maximum is below what a policy allows
  | 3->20 | cpu 10 | small | bounds=1..20 sevenfold limited=TooManyReplicas

from zero | 0->2 | object value 15 |
  | qps=20 bounds=0..6 gates=HPAScaleToZero was-at-zero not-at-zero
from zero without a tolerance | 0->1 | object value 1 |
  | qps=1 bounds=0..6 gates=HPAScaleToZero was-at-zero not-at-zero
a user has scaled it to zero | 0->0 | object value 15 |
  | qps=20 bounds=0..6 gates=HPAScaleToZero failed=ScalingDisabled
scaled to zero before the gate was off | 0->0 | object value 15 |
  | qps=20 bounds=1..6 was-at-zero failed=ScalingDisabled
to zero | 3->0 | object value 15 | three
  | qps=0 bounds=0..6 at-once gates=HPAScaleToZero at-zero

the pods request something as a whole | 3->2 | cpu 50 | 500m:1:2*3 | at-once
the gate of pods as a whole is off | 3->3 | cpu 50 | 500m:1:2*3
  | gates=-PodLevelResources,-InPlacePodLevelResourcesVerticalScaling stays
some pods have no metrics | 4->3 | cpu 100 | 400m 95m -*2 | at-once
no pod has metrics | 4->4 | cpu 100 | -*4 | failed=FailedGetResourceMetric
there is no request
  | 1->1 | cpu 100 | 200m:none | bounds=1..5 failed=FailedGetResourceMetric
the API of resource metrics fails
  | 3->3 | cpu 10 | three | fail failed=FailedGetResourceMetric
the API of custom metrics fails
  | 3->3 | pods 15 | three | fail failed=FailedGetPodsMetric
the API of objects' metrics fails
  | 3->3 | object value 15 | three | fail failed=FailedGetObjectMetric
the API of external metrics fails
  | 3->3 | external value 300m | three | fail failed=FailedGetExternalMetric
one metric fails, the other asks for more | 3->5 | pods 15 + cpu 30 | three |
one metric fails, the other asks for fewer
  | 5->5 | pods 15 + cpu 50 | five | at-once failed=FailedGetPodsMetric
the metric that asks for most decides
  | 3->5 | cpu 30 + pods 15 | three | qps=20,10,30
"""

_GROUPS: Final = {
    "three": "300m 500m 700m",
    "five": "100m 300m 500m 250m*2",
    "near": "1010m:900m 1030m 1020m:1100m",
    "small": "100m:100m 200m:100m 300m:100m",
}
_STATES: Final[dict[str, JSON]] = {
    "unready": {"is_ready": False},
    "hot": {"age": 0},
    "failed": {"phase": "Failed"},
    "leaving": {"is_deleting": True},
}
_SEVENFOLD: Final = {"type": "Percent", "value": 700, "periodSeconds": 60}


class Case(Struct):
    """A target with some replicas, pods and metrics, and the expected writes."""

    replicas: int
    expected: int
    metrics: list[JSON]
    pods: tuple[PodOf, ...]
    conditions: dict[str, tuple[str, str]]
    bounds: tuple[int, int] = (2, 6)
    answers: Mapping[str, Any] = {}
    observed: int | None = None
    gates: Mapping[str, bool] = {}
    stabilization: float = 300.0
    behavior: JSON | None = None
    was_scaled_to_zero: bool = False


def _pods(words: str) -> Iterator[PodOf]:
    for group, members in _GROUPS.items():
        words = words.replace(group, members)
    for word in words.split():
        each, _, count = word.partition("*")
        amounts, *states = each.split("/")
        usage, *requests = amounts.split(":")
        fields: JSON = {"cpu": None if usage == "-" else usage}
        fields |= dict(zip(("request", "whole"), requests, strict=False))
        if fields.get("request") == "none":
            fields["request"] = None
        for state in states:
            fields |= _STATES[state]
        yield from [PodOf(**fields)] * int(count or 1)


def _metric(words: str) -> JSON:
    kind, *form, amount = words.split()
    if kind in {"cpu", "container"}:
        percent = int(amount)
        return cpu(percent) if kind == "cpu" else container_cpu(percent, "c")
    if kind == "pods":
        return of_pods(amount)
    target = {"value" if form == ["value"] else "averageValue": amount}
    return external(**target) if kind == "external" else of_object(**target)


def answers(metrics: str, values: str) -> JSON:
    """Return the answers of the metrics API for kinds of metrics."""
    if "pods" in metrics:
        each = {f"test-pod-{at}": one for at, one in enumerate(values.split(","))}
        return {"pods": {"qps": each}}
    if "external" in metrics:
        return {"external": {"qps": [{"value": values}]}}
    return {"objects": {"services/web": {"qps": values}}}


def _case(size: str, metrics: str, pods: str, rest: str) -> Case:
    replicas, expected = map(int, size.split("->"))
    made = Case(
        replicas,
        expected,
        [_metric(each) for each in metrics.split("+")],
        tuple(_pods(pods)),
        {
            "AbleToScale": ("True", "SucceededRescale"),
            "ScalingActive": ("True", "ValidMetricFound"),
            "ScalingLimited": ("False", "DesiredWithinRange"),
        },
    )
    for word in rest.split():
        key, _, text = word.partition("=")
        match key:
            case "qps":
                made.answers = answers(metrics, text)
            case "fail":
                made.answers = {"fail": 500}
            case "bounds":
                least, most = map(int, text.split(".."))
                made.bounds = least, most
            case "observed":
                made.observed = int(text)
            case "at-once":
                made.stabilization = 0
            case "gates":
                names = text.split(",")
                made.gates = {each.lstrip("-"): each[0] != "-" for each in names}
            case "behavior":
                made.behavior = json.loads(text)
            case "sevenfold":
                made.behavior = {"scaleUp": {"policies": [_SEVENFOLD]}}
            case "was-at-zero":
                made.was_scaled_to_zero = True
            case _:
                _see(made.conditions, key, text)
    return made


def _see(conditions: dict[str, tuple[str, str]], word: str, reason: str) -> None:
    """Change the expected conditions by a word of a row."""
    match word:
        case "stays":
            conditions["AbleToScale"] = ("True", "ReadyForNewScale")
        case "stabilized":
            conditions["AbleToScale"] = ("True", "ScaleDownStabilized")
        case "limited":
            conditions["ScalingLimited"] = ("True", reason)
        case "at-zero":
            conditions["ScaledToZero"] = ("True", "ScaledToZero")
        case "not-at-zero":
            conditions["ScaledToZero"] = ("False", "NotScaledToZero")
        case "unread":
            del conditions["ScalingActive"], conditions["ScalingLimited"]
        case "failed":
            conditions["AbleToScale"] = ("True", "SucceededGetScale")
            conditions["ScalingActive"] = ("False", reason)
            del conditions["ScalingLimited"]
        case _:
            raise AssertionError(word)


def cases() -> Iterator[tuple[str, Case]]:
    for row in ROWS.replace("\n  ", " ").strip().splitlines():
        if not row:
            continue
        name, size, metrics, pods, rest = (each.strip() for each in row.split("|"))
        kinds = ("external", "object") if "share" in metrics else ("",)
        for kind in kinds:
            of_kind = metrics.replace("share", f"{kind} average")
            yield f"{name} {kind}".strip(), _case(size, of_kind, pods, rest)
