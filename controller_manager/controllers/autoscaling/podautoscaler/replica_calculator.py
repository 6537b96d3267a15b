"""Computes the number of replicas that one metric asks for; pure.

Upstream: pkg/controller/podautoscaler/replica_calculator.go and metrics/utilization.go.
All amounts are in thousandths.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from controller_manager.api.core.v1 import Pod
from controller_manager.api.pods import is_ready

from .pods import (
    ComputationError,
    PodGroups,
    PodSample,
    Thresholds,
    Tolerances,
    grouped,
)

_ALL: Final = 100
"""All of a request, in per cent."""

_NO_PODS: Final = "no pods returned by selector while calculating replica count"


class Proposal(Struct, frozen=True):
    """The number of replicas that a metric asks for, and its present value.

    `usage` is in thousandths: an average for one pod, or the whole; `None` if there is
    no pod to take the average of. `utilization` is in per cent of the request.
    """

    replicas: int
    usage: int | None
    utilization: int | None = None


class _Calculation(Struct, frozen=True):
    """The data of one computation: the pods, their usages, and the target."""

    groups: PodGroups
    usages: dict[str, int]
    ratio_of: Callable[[Mapping[str, int]], float]
    assumed_usage: Callable[[str], int]


def replicas_for_utilization(
    sample: PodSample,
    requests: Callable[[], Mapping[str, int]],
    current: int,
    target: int,
    thresholds: Thresholds,
) -> Proposal:
    """Return the number for a `target` in per cent of requests (GetResourceReplicas).

    Raises ComputationError if no pod that counts has a metric and a request, and the
    errors of `requests`. A pod without a metric counts with all of its request, or with
    the target if that is more, where the others ask for fewer replicas.
    """
    groups, usages = _measured(sample, thresholds)
    requested = requests()
    assumed_percent = max(_ALL, target)
    calculation = _Calculation(
        groups,
        usages,
        lambda used: ratio(_utilization(used, requested), target),
        lambda name: divided(requested[name] * assumed_percent, _ALL),
    )
    utilization = _utilization(usages, requested)
    known = [name for name in usages if name in requested]
    usage = divided(sum(usages[name] for name in known), len(known))
    replicas = _replicas(calculation, current, thresholds.tolerances)
    return Proposal(replicas, usage, utilization)


def replicas_for_average(
    sample: PodSample, current: int, target: int, thresholds: Thresholds
) -> Proposal:
    """Return the number that brings the average of the pods' metrics to `target`.

    Raises ComputationError if no pod that counts has a metric. Upstream:
    GetRawResourceReplicas and GetMetricReplicas.
    """
    groups, usages = _measured(sample, thresholds)
    calculation = _Calculation(
        groups, usages, lambda used: ratio(_average(used), target), lambda _: target
    )
    replicas = _replicas(calculation, current, thresholds.tolerances)
    return Proposal(replicas, _average(usages))


def replicas_for_value(
    pods: Sequence[Pod], usage: int, current: int, target: int, tolerances: Tolerances
) -> Proposal:
    """Return the number that brings a metric that all pods share to `target`.

    From zero replicas it is the ratio of the metric to the target. Raises
    ComputationError if the selector selects no pods. Upstream: GetObjectMetricReplicas
    and GetExternalMetricReplicas.
    """
    usage_ratio = ratio(usage, target)
    if current == 0:
        return Proposal(rounded_up(usage_ratio), usage)
    if tolerances.allow(usage_ratio):
        return Proposal(current, usage)
    if not pods:
        msg = f"unable to calculate ready pods: {_NO_PODS}"
        raise ComputationError(msg)
    ready = sum(pod.status.phase == "Running" and is_ready(pod) for pod in pods)
    return Proposal(rounded_up(usage_ratio * ready), usage)


def replicas_for_share(
    usage: int, current: int, observed: int, target: int, tolerances: Tolerances
) -> Proposal:
    """Return the number that brings each replica's share of a metric to `target`.

    `current` and `observed` are the numbers in spec and status of the target. The
    usage is that of one of the observed replicas; without them there is none.

    The number does not depend on the replicas that exist. So the tolerance is that of
    the share of `current` replicas. During a rolling update `observed` has the surge,
    too. Upstream takes the tolerance of that share, and returns `observed` within it
    (kubernetes#138505). With equal numbers the result is upstream's.

    Upstream: GetObjectPerPodMetricReplicas and GetExternalPerPodMetricReplicas.
    """
    wanted = current
    if not tolerances.allow(ratio(usage, float(target) * current)):
        wanted = rounded_up(ratio(usage, target))
    if observed == 0:
        return Proposal(wanted, None)
    if float(usage) >= MAX_INT64:
        return Proposal(wanted, MAX_INT64)
    return Proposal(wanted, math.ceil(float(usage) / observed))


def _measured(
    sample: PodSample, thresholds: Thresholds
) -> tuple[PodGroups, dict[str, int]]:
    if not sample.pods:
        raise ComputationError(_NO_PODS)
    groups = grouped(sample, thresholds.readiness)
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
    known = [name for name in usages if name in requests]
    requested = sum(requests[name] for name in known)
    if requested == 0:
        msg = "no metrics returned matched known pods"
        raise ComputationError(msg)
    return as_int32(divided(sum(usages[name] for name in known) * _ALL, requested))


def _average(usages: Mapping[str, int]) -> int:
    return divided(sum(usages.values()), len(usages))


def _replicas(calculation: _Calculation, current: int, tolerances: Tolerances) -> int:
    # First, pods without a metric are left out. Then they get an assumed usage that
    # works against the change, and so do unready pods if more replicas are needed. If
    # the change is then too small, or has the other direction, the number stays.
    usage_ratio = calculation.ratio_of(calculation.usages)
    groups = calculation.groups
    unready = groups.unready if usage_ratio > 1.0 else frozenset()
    if not unready and not groups.missing:
        if tolerances.allow(usage_ratio):
            return current
        return rounded_up(usage_ratio * len(groups.measured))
    usages = dict(calculation.usages)
    if usage_ratio < 1.0:
        usages |= {name: calculation.assumed_usage(name) for name in groups.missing}
    elif usage_ratio > 1.0:
        usages |= dict.fromkeys(groups.missing | unready, 0)
    new_ratio = calculation.ratio_of(usages)
    if tolerances.allow(new_ratio) or (usage_ratio - 1.0) * (new_ratio - 1.0) < 0:
        return current
    replicas = rounded_up(new_ratio * len(usages))
    turns = replicas > current if new_ratio < 1.0 else replicas < current
    return current if turns else replicas


MAX_INT32: Final = 2**31 - 1
MIN_INT32: Final = -(2**31)
MAX_INT64: Final = 2**63 - 1


def as_int32(number: int) -> int:
    """Return the 32-bit number nearest to `number`."""
    return min(max(number, MIN_INT32), MAX_INT32)


def rounded_up(number: float) -> int:
    """Return `number` rounded up to a 32-bit number; NaN becomes 0."""
    if math.isnan(number):
        return 0
    if math.isinf(number):
        return MAX_INT32 if number > 0 else MIN_INT32
    return as_int32(math.ceil(number))


def divided(dividend: int, divisor: int) -> int:
    """Return the quotient, rounded towards 0 as in Go; the divisor is positive."""
    quotient = abs(dividend) // divisor
    return quotient if dividend >= 0 else -quotient


def ratio(amount: float, target: float) -> float:
    """Return `amount` / `target`; a target of 0 gives infinity, or NaN."""
    if target:
        return amount / target
    return math.copysign(math.inf, amount) if amount else math.nan


def total(amounts: Iterable[int]) -> int:
    """Return the sum of amounts, as the nearest number of 64 bits."""
    return min(max(sum(amounts), -(2**63)), MAX_INT64)
