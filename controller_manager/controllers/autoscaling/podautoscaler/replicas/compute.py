"""How many replicas one metric asks for.

Upstream: pkg/controller/podautoscaler/replica_calculator.go and metrics/utilization.go.
All amounts are in thousandths.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from msgspec import Struct

from controller_manager.controllers.autoscaling.podautoscaler.replicas.amounts import (
    MAX_INT64,
    as_int32,
    divided,
    ratio,
    rounded_up,
)
from controller_manager.controllers.autoscaling.podautoscaler.replicas.groups import (
    PodGroups,
    grouped,
)
from controller_manager.controllers.autoscaling.podautoscaler.replicas.judging import (
    Judgement,
    Tolerances,
)
from controller_manager.controllers.autoscaling.podautoscaler.replicas.samples import (
    ComputationError,
    PodSample,
    TargetPod,
)

_ALL: Final = 100
"""All of a request, in per cent."""

_NO_PODS: Final = "no pods returned by selector while calculating replica count"


class Proposal(Struct, frozen=True):
    """How many replicas a metric asks for, and its present value.

    `usage` is in thousandths: an average for one pod, or the whole; `None` if there is
    no pod to take the average of. `utilization` is in per cent of the request.
    """

    replicas: int
    usage: int | None
    utilization: int | None = None


class _Question(Struct, frozen=True):
    """What the shared computation needs: the pods, what they use, and the target."""

    groups: PodGroups
    usages: dict[str, int]
    ratio_of: Callable[[Mapping[str, int]], float]
    assumed_usage: Callable[[str], int]


def replicas_for_utilization(
    sample: PodSample,
    requests: Callable[[], Mapping[str, int]],
    current: int,
    target: int,
    judgement: Judgement,
) -> Proposal:
    """Return what brings the use of a resource to `target` per cent of the requests.

    `requests` gives what each pod requests. Raises ComputationError if no pod that
    counts has both a metric and a request, and what `requests` raises. A pod without
    a metric counts with all of its request, or with the target if that is more,
    where the others ask for fewer replicas.

    Upstream: GetResourceReplicas.
    """
    groups, usages = _measured(sample, judgement)
    requested = requests()
    assumed_percent = max(_ALL, target)
    question = _Question(
        groups,
        usages,
        lambda used: ratio(_utilization(used, requested), target),
        lambda name: divided(requested[name] * assumed_percent, _ALL),
    )
    utilization = _utilization(usages, requested)
    known = [name for name in usages if name in requested]
    usage = divided(sum(usages[name] for name in known), len(known))
    replicas = _replicas(question, current, judgement.tolerances)
    return Proposal(replicas, usage, utilization)


def replicas_for_average(
    sample: PodSample, current: int, target: int, judgement: Judgement
) -> Proposal:
    """Return what brings the average of the pods' metrics to `target`.

    Raises ComputationError if no pod that counts has a metric.

    Upstream: GetRawResourceReplicas and GetMetricReplicas.
    """
    groups, usages = _measured(sample, judgement)
    question = _Question(
        groups, usages, lambda used: ratio(_average(used), target), lambda _: target
    )
    replicas = _replicas(question, current, judgement.tolerances)
    return Proposal(replicas, _average(usages))


def replicas_for_value(
    pods: Iterable[TargetPod],
    usage: int,
    current: int,
    target: int,
    tolerances: Tolerances,
) -> Proposal:
    """Return what brings a metric that all pods share to `target`.

    From zero replicas there is nothing to multiply: the ratio is the answer. Raises
    ComputationError if there should be pods and the selector selects none.

    Upstream: GetObjectMetricReplicas and GetExternalMetricReplicas.
    """
    usage_ratio = ratio(usage, target)
    if current == 0:
        return Proposal(rounded_up(usage_ratio), usage)
    if tolerances.allow(usage_ratio):
        return Proposal(current, usage)
    known = tuple(pods)
    if not known:
        msg = f"unable to calculate ready pods: {_NO_PODS}"
        raise ComputationError(msg)
    ready = sum(pod.phase == "Running" and pod.ready == "True" for pod in known)
    return Proposal(rounded_up(usage_ratio * ready), usage)


def replicas_for_share(
    usage: int, replicas: int, target: int, tolerances: Tolerances
) -> Proposal:
    """Return what brings each replica's share of a metric to `target`.

    `replicas` is the number in the status of the target. With none there is no share
    to report.

    Upstream: GetObjectPerPodMetricReplicas and GetExternalPerPodMetricReplicas.
    """
    wanted = replicas
    if not tolerances.allow(ratio(usage, float(target) * replicas)):
        wanted = rounded_up(ratio(usage, target))
    if replicas == 0:
        return Proposal(wanted, None)
    if float(usage) >= MAX_INT64:
        return Proposal(wanted, MAX_INT64)
    return Proposal(wanted, math.ceil(float(usage) / replicas))


def _measured(
    sample: PodSample, judgement: Judgement
) -> tuple[PodGroups, dict[str, int]]:
    """Return the groups of the pods, and what those use that have started up."""
    if not sample.pods:
        raise ComputationError(_NO_PODS)
    groups = grouped(sample, judgement.readiness)
    left_out = groups.ignored | groups.unready
    usages = {
        name: metric.value
        for name, metric in sample.metrics.items()
        if name not in left_out
    }
    if not usages:
        msg = "did not receive metrics for targeted pods (pods might be unready)"
        raise ComputationError(msg)
    return groups, usages


def _utilization(usages: Mapping[str, int], requests: Mapping[str, int]) -> int:
    """Return the use of all pods that request something, in per cent."""
    known = [name for name in usages if name in requests]
    requested = sum(requests[name] for name in known)
    if requested == 0:
        msg = "no metrics returned matched known pods"
        raise ComputationError(msg)
    return as_int32(divided(sum(usages[name] for name in known) * _ALL, requested))


def _average(usages: Mapping[str, int]) -> int:
    return divided(sum(usages.values()), len(usages))


def _replicas(question: _Question, current: int, tolerances: Tolerances) -> int:
    """Return how many replicas bring the ratio of usage to target to 1.

    The pods without a metric are first left out. Then they are assumed to use what
    speaks against the change, and so are unready ones if there shall be more
    replicas. If the change is no longer large enough, or turns round, none is made.
    """
    usage_ratio = question.ratio_of(question.usages)
    groups = question.groups
    unready = groups.unready if usage_ratio > 1.0 else frozenset()
    if not unready and not groups.missing:
        if tolerances.allow(usage_ratio):
            return current
        return rounded_up(usage_ratio * len(groups.measured))
    usages = dict(question.usages)
    if usage_ratio < 1.0:
        usages |= {name: question.assumed_usage(name) for name in groups.missing}
    elif usage_ratio > 1.0:
        usages |= dict.fromkeys(groups.missing | unready, 0)
    new_ratio = question.ratio_of(usages)
    if tolerances.allow(new_ratio) or (usage_ratio - 1.0) * (new_ratio - 1.0) < 0:
        return current
    replicas = rounded_up(new_ratio * len(usages))
    turns = replicas > current if new_ratio < 1.0 else replicas < current
    return current if turns else replicas
