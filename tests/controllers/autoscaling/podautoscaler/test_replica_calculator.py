"""The replicas that one metric asks for, and the requests of pods."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
import pytest

from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.api.selectors import parse_selector
from controller_manager.controllers.autoscaling.podautoscaler import replica_calculator
from controller_manager.controllers.autoscaling.podautoscaler.pods import (
    ComputationError,
    PodMetric,
    PodSample,
    Readiness,
    Thresholds,
    Tolerances,
    requested,
)
from controller_manager.controllers.autoscaling.podautoscaler.selectors import selected
from controller_manager.informers.store import BY_LABEL, BY_NAMESPACE, Lister, Store

NOW: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
READINESS: Final = Readiness(timedelta(seconds=300), timedelta(seconds=30))
THRESHOLDS: Final = Thresholds(Tolerances(0.1, 0.1), READINESS)
MOST: Final = replica_calculator.MAX_INT32


def sample_of(*values: int | None) -> PodSample:
    """Return pods that are ready for an hour, with their metrics, if they have one."""
    since = format_time(NOW - timedelta(hours=1))
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
    status = {"phase": "Running", "startTime": since, "conditions": [ready]}
    pods = [
        msgspec.convert({"metadata": {"name": f"p{at}"}, "status": status}, Pod)
        for at in range(len(values))
    ]
    minute = timedelta(seconds=60)
    metrics = {
        f"p{at}": PodMetric(value, NOW, minute)
        for at, value in enumerate(values)
        if value is not None
    }
    return PodSample(pods=pods, metrics=metrics, now=NOW, resource="cpu")


@pytest.mark.parametrize("usage", [0, 50])
def test_a_target_of_zero_asks_for_the_largest_number(usage: int) -> None:
    """The API server refuses a target of zero; it must not stop the other metrics."""
    sample, requests = sample_of(usage), {"p0": 100}
    utilized = replica_calculator.replicas_for_utilization(
        sample, lambda: requests, 1, 0, THRESHOLDS
    )
    averaged = replica_calculator.replicas_for_average(sample, 1, 0, THRESHOLDS)
    assert utilized.replicas == averaged.replicas == (MOST if usage else 0)


def test_a_missing_metric_is_the_target_where_others_ask_for_fewer() -> None:
    """One of two pods uses half: without the other one, one replica would do."""
    sample = sample_of(50, None)
    proposed = replica_calculator.replicas_for_average(sample, 2, 100, THRESHOLDS)
    assert proposed == replica_calculator.Proposal(2, 50)


@pytest.mark.parametrize(
    ("usage", "target", "current", "observed", "share", "whole"),
    [
        (0, 10, 3, 3, (0, 0), 0),
        (101, 10, 3, 3, (11, 34), 11),
        (101, 10, 3, 0, (11, None), 11),
        (30, 10, 3, 3, (3, 10), 3),
    ],
)
def test_a_shared_metric_asks_for_its_number(
    usage: int,
    target: int,
    current: int,
    observed: int,
    share: tuple[int, int | None],
    whole: int,
) -> None:
    """A metric of zero asks for zero replicas; without pods there is no average."""
    tolerances = THRESHOLDS.tolerances
    each = replica_calculator.replicas_for_share(
        usage, current, observed, target, tolerances
    )
    value = replica_calculator.replicas_for_value((), usage, 0, target, tolerances)
    assert ((each.replicas, each.usage), value.replicas) == (share, whole)


@pytest.mark.parametrize(
    ("amount", "target", "expected"),
    [(3.0, 2.0, 2), (-3.0, 2.0, -1), (1.0, 0.0, MOST), (2.0**80, 1.0, MOST)],
)
def test_any_ratio_is_rounded(amount: float, target: float, expected: int) -> None:
    """Infinity and NaN are converted, too: Go's result depends on the machine."""
    rounded, ratio = replica_calculator.rounded_up, replica_calculator.ratio
    assert rounded(ratio(amount, target)) == expected
    assert abs(rounded(math.nan)) <= MOST + 1
    assert abs(rounded(-math.inf)) <= MOST + 1


@pytest.mark.parametrize(
    ("dividend", "divisor", "quotient"), [(7, 2, 3), (-7, 2, -3), (6, 3, 2), (0, 5, 0)]
)
def test_quotients_are_truncated(dividend: int, divisor: int, quotient: int) -> None:
    """As Go divides whole numbers; Python rounds down."""
    assert replica_calculator.divided(dividend, divisor) == quotient


def container(name: str, *, sidecar: bool = False, **requests: str) -> JSON:
    """Return a container; a sidecar is an init container with restartPolicy Always."""
    made: JSON = {"name": name, "resources": {"requests": requests}}
    if sidecar:
        made["restartPolicy"] = "Always"
    return made


def pod(
    *containers: JSON,
    init: tuple[JSON, ...] = (),
    requests: JSON | None = None,
    limits: JSON | None = None,
    overhead: JSON | None = None,
) -> Pod:
    """Return a pod; `requests` and `limits` are those of the pod as a whole."""
    spec: JSON = {"containers": containers, "initContainers": init}
    if requests or limits:
        spec["resources"] = {"requests": requests, "limits": limits}
    if overhead:
        spec["overhead"] = overhead
    return msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod)


APP: Final = container("app", cpu="100m", memory="1Gi")
PROXY: Final = container("proxy", sidecar=True, cpu="50m", memory="64Mi")
SETUP: Final = container("setup", cpu="2", memory="4Gi")

SUMS: Final = {
    "all containers": (pod(APP, container("log", cpu="10m")), "", 110),
    "a sidecar runs as long as the pod": (pod(APP, init=(PROXY,)), "", 150),
    "an init container does not": (pod(APP, init=(SETUP,)), "", 100),
    "one container of several": (pod(APP, container("log", cpu="10m")), "log", 10),
    "one sidecar": (pod(APP, init=(PROXY,)), "proxy", 50),
    "one container, if another requests nothing": (
        pod(APP, container("log")),
        "app",
        100,
    ),
    "the pod as a whole": (pod(APP, requests={"cpu": "700m"}), "", 700),
    "its overhead is added": (
        pod(APP, requests={"cpu": "700m"}, overhead={"cpu": "30m"}),
        *("", 730),
    ),
    "the overhead of other pods is not": (pod(APP, overhead={"cpu": "30m"}), "", 100),
    "one container counts alone, whatever the pod requests": (
        pod(APP, requests={"cpu": "700m"}),
        *("app", 100),
    ),
    "a limit of the pod is no request": (pod(APP, limits={"cpu": "700m"}), "", 100),
    "what the pod does not request itself its containers do": (
        pod(APP, container("log"), init=(PROXY,), requests={"memory": "2Gi"}),
        *("", 150),
    ),
    "of these, an init container may need more than all others": (
        pod(APP, init=(PROXY, SETUP), requests={"memory": "2Gi"}),
        *("", 2050),
    ),
    "a request of zero is one": (pod(container("app", cpu="0")), "", 0),
    "billionths are rounded up": (pod(container("app", cpu="1n")), "", 1),
}


@pytest.mark.parametrize(("made", "name", "expected"), SUMS.values(), ids=SUMS)
def test_requests_are_added_up(made: Pod, name: str, expected: int) -> None:
    assert requested([made], "cpu", name, pod_level=True) == {"p": expected}


MISSING: Final = {
    "a container requests nothing": (
        pod(APP, container("log")),
        *("", "missing request for cpu in container log of Pod p"),
    ),
    "a sidecar requests nothing": (
        pod(APP, init=(container("proxy", sidecar=True),)),
        *("", "missing request for cpu in container proxy of Pod p"),
    ),
    "the container requests nothing": (
        pod(APP, container("log")),
        *("log", "missing request for cpu in container log of Pod p"),
    ),
    "there is no such container": (pod(APP), "x", "container x not found in Pod p"),
    "an init container is none": (
        pod(APP, init=(SETUP,)),
        *("setup", "container setup not found in Pod p"),
    ),
    "neither the pod nor a container requests it": (
        pod(container("app"), requests={"memory": "2Gi"}),
        *("", "missing pod-level request for cpu in Pod p"),
    ),
}


@pytest.mark.parametrize(("made", "name", "message"), MISSING.values(), ids=MISSING)
def test_a_request_that_is_missing_is_named(made: Pod, name: str, message: str) -> None:
    with pytest.raises(ComputationError) as raised:
        requested([made], "cpu", name, pod_level=True)
    assert str(raised.value) == message


def test_without_its_gate_the_pod_as_a_whole_requests_nothing() -> None:
    """The requests of its containers count, and each container must have one."""
    whole = {"cpu": "700m"}
    complete = pod(APP, container("log", cpu="10m"), requests=whole)
    assert requested([complete], "cpu", pod_level=False) == {"p": 110}
    lacking = pod(APP, container("log"), requests=whole)
    assert requested([lacking], "cpu", pod_level=True) == {"p": 700}
    with pytest.raises(ComputationError) as raised:
        requested([lacking], "cpu", pod_level=False)
    message = "missing request for cpu in container log of Pod p"
    assert str(raised.value) == message


@pytest.fixture(name="lister")
def make_lister() -> Lister[Pod]:
    store: Store[Any] = Store()
    for namespace, name, labels in (
        ("n", "c", {"app": "web", "tier": "front"}),
        ("n", "b", {"app": "web", "tier": "back"}),
        ("n", "a", {"app": "api"}),
        ("n", "d", {}),
        ("other", "e", {"app": "web"}),
    ):
        metadata = {"name": name, "namespace": namespace, "labels": labels}
        store.put(msgspec.convert({"metadata": metadata}, Pod))
    return Lister(store, "Pod", BY_LABEL, BY_NAMESPACE)


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("app=web", ["b", "c"]),
        ("app=web,tier=front", ["c"]),
        ("app=web,tier!=front", ["b"]),
        ("app=web,app=api", []),
        ("app in (web,api)", ["a", "b", "c"]),
        ("!app", ["d"]),
        ("app=none", []),
    ],
)
def test_a_selector_of_any_form_selects_in_its_namespace(
    lister: Lister[Pod], selector: str, names: list[str]
) -> None:
    found = selected(lister, "n", parse_selector(selector))
    assert [pod.metadata.name for pod in found] == names
