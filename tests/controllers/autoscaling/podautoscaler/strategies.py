"""Pods, metrics, behaviors and histories of any kind, for hypothesis."""

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from controller_manager.api.autoscaling.v2 import (
    HorizontalPodAutoscalerBehavior,
    HPAScalingPolicy,
    HPAScalingRules,
)
from controller_manager.api.core.v1 import Pod
from controller_manager.api.scalars import format_time
from controller_manager.controllers.autoscaling.podautoscaler.behavior import (
    History,
    Recommendation,
    ScaleEvent,
)
from controller_manager.controllers.autoscaling.podautoscaler.pods import (
    PodMetric,
    PodSample,
    Readiness,
    Thresholds,
    Tolerances,
)

unhurried: Final = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Settings without a deadline: a busy machine may be slow."""

NOW: Final = datetime(2026, 1, 1, 12, tzinfo=UTC)
READINESS: Final = Readiness(timedelta(seconds=300), timedelta(seconds=30))

instants = st.integers(0, 900).map(lambda ago: NOW - timedelta(seconds=ago))
amounts = st.integers(0, 5000)
replicas = st.integers(0, 60)
fractions = st.sampled_from((0.0, 0.02, 0.1, 0.5, 0.9))
judgements = st.builds(
    Thresholds, st.builds(Tolerances, fractions, fractions), st.just(READINESS)
)


def pod_of(
    name: str,
    phase: str,
    *,
    deleting: bool,
    started: datetime | None,
    ready: str | None,
    ready_since: datetime | None,
) -> Pod:
    """Return a pod; `ready` is the status of its condition, if it has one."""
    condition = {
        "type": "Ready",
        "status": ready,
        "lastTransitionTime": ready_since and format_time(ready_since),
    }
    pod = {
        "metadata": {
            "name": name,
            "deletionTimestamp": format_time(NOW) if deleting else None,
        },
        "status": {
            "phase": phase,
            "startTime": started and format_time(started),
            "conditions": [condition] if ready else [],
        },
    }
    return msgspec.convert(pod, Pod)


metrics = st.builds(
    PodMetric,
    value=amounts,
    timestamp=instants,
    window=st.sampled_from((30, 60)).map(lambda each: timedelta(seconds=each)),
)


@st.composite
def healthy_samples(draw: st.DrawFn) -> PodSample:
    """Draw pods that are ready for long and have metrics, all of them."""
    count = draw(st.integers(1, 8))
    long_ago = NOW - timedelta(hours=1)
    pods = [
        pod_of(
            f"p{number}",
            "Running",
            deleting=False,
            started=long_ago,
            ready="True",
            ready_since=long_ago,
        )
        for number in range(count)
    ]
    measured = {pod.metadata.name: draw(metrics) for pod in pods}
    return PodSample(pods=pods, metrics=measured, now=NOW, resource="cpu")


policies = st.builds(
    HPAScalingPolicy,
    type=st.sampled_from(("Pods", "Percent")),
    value=st.integers(1, 150),
    period_seconds=st.sampled_from((15, 30, 60, 120)),
)
rules = st.builds(
    HPAScalingRules,
    stabilization_window_seconds=st.none() | st.sampled_from((0, 15, 60, 300)),
    select_policy=st.none() | st.sampled_from(("Max", "Min", "Disabled")),
    policies=st.none() | st.lists(policies, min_size=1, max_size=3).map(tuple),
)
behaviors = st.builds(
    HorizontalPodAutoscalerBehavior,
    scale_up=st.none() | rules,
    scale_down=st.none() | rules,
)
changes = st.builds(ScaleEvent, st.integers(0, 20), instants)
histories = st.builds(
    History,
    st.lists(st.builds(Recommendation, replicas, instants), max_size=6).map(tuple),
    st.lists(st.builds(ScaleEvent, st.integers(0, 20), instants), max_size=4).map(
        tuple
    ),
    st.lists(st.builds(ScaleEvent, st.integers(0, 20), instants), max_size=4).map(
        tuple
    ),
)
