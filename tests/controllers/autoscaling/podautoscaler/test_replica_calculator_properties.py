"""Properties of the replicas that one metric asks for, for any pods and metrics."""

import math

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from controller_manager.controllers.autoscaling.podautoscaler import replica_calculator
from controller_manager.controllers.autoscaling.podautoscaler.pods import (
    ComputationError,
    PodGroups,
    PodSample,
    Thresholds,
    grouped,
)
from tests.controllers.autoscaling.podautoscaler.strategies import (
    READINESS,
    amounts,
    healthy_samples,
    judgements,
    replicas,
    samples,
    unhurried,
)

targets = st.integers(1, 300)


def requests_of(sample: PodSample) -> dict[str, int]:
    """Return requests of different sizes."""
    names = [pod.metadata.name for pod in sample.pods]
    return {name: 100 + 50 * (place % 3) for place, name in enumerate(names)}


@unhurried
@given(samples())
def test_each_pod_is_in_one_group(sample: PodSample) -> None:
    """No pod is counted twice or left out."""
    groups = grouped(sample, READINESS)
    together = [getattr(groups, name) for name in PodGroups.__struct_fields__]
    assert sorted(name for group in together for name in group) == sorted(
        pod.metadata.name for pod in sample.pods
    )


@unhurried
@given(healthy_samples(), targets, judgements, st.integers(1, 5000))
def test_more_usage_never_asks_for_fewer_replicas(
    sample: PodSample, target: int, thresholds: Thresholds, more: int
) -> None:
    """With all pods measured, for any thresholds."""
    name = sample.pods[0].metadata.name
    metric = sample.metrics[name]
    busier = replace(
        sample,
        metrics={**sample.metrics, name: replace(metric, value=metric.value + more)},
    )
    current = len(sample.pods)
    requests = requests_of(sample)

    def asked(of: PodSample) -> tuple[int, int]:
        utilized = replica_calculator.replicas_for_utilization(
            of, lambda: requests, current, target, thresholds
        )
        averaged = replica_calculator.replicas_for_average(
            of, current, target * 10, thresholds
        )
        return utilized.replicas, averaged.replicas

    less, most = asked(sample), asked(busier)
    assert less[0] <= most[0]
    assert less[1] <= most[1]


@unhurried
@given(samples(), replicas, targets, judgements)
def test_pods_without_a_metric_never_reverse_the_change(
    sample: PodSample, current: int, target: int, thresholds: Thresholds
) -> None:
    """Their assumed usage only makes a change smaller, or prevents it."""
    try:
        proposal = replica_calculator.replicas_for_average(
            sample, current, target, thresholds
        )
    except ComputationError:
        return
    groups = grouped(sample, thresholds.readiness)
    assume(groups.missing)
    assert proposal.usage is not None
    if proposal.usage > target:
        assert proposal.replicas >= current
    elif proposal.usage < target:
        assert proposal.replicas <= current
    else:
        assert proposal.replicas == current


@unhurried
@given(healthy_samples(), replicas, judgements, st.floats(0.5, 2))
def test_inside_the_tolerance_nothing_changes(
    sample: PodSample, current: int, thresholds: Thresholds, distance: float
) -> None:
    """Inside the tolerance any number of replicas stays; outside it is computed."""
    values = [metric.value for metric in sample.metrics.values()]
    average = replica_calculator.divided(sum(values), len(values))
    target = max(1, int(average * distance))
    found = replica_calculator.replicas_for_average(sample, current, target, thresholds)
    inside = thresholds.tolerances.allow(average / target)
    computed = math.ceil(average / target * len(values))
    assert found == replica_calculator.Proposal(
        current if inside else computed, average
    )


@unhurried
@given(healthy_samples(), judgements)
def test_a_target_of_zero_asks_for_the_largest_number(
    sample: PodSample, thresholds: Thresholds
) -> None:
    """The API server refuses a target of zero; it must not stop the other metrics."""
    requests = requests_of(sample)
    utilized = replica_calculator.replicas_for_utilization(
        sample, lambda: requests, 1, 0, thresholds
    )
    averaged = replica_calculator.replicas_for_average(sample, 1, 0, thresholds)
    assert utilized.replicas == (
        replica_calculator.MAX_INT32 if utilized.utilization else 0
    )
    assert averaged.replicas == (replica_calculator.MAX_INT32 if averaged.usage else 0)


@unhurried
@given(amounts, targets, replicas, replicas, judgements)
def test_a_shared_metric_never_asks_for_a_negative_number(
    usage: int, target: int, current: int, observed: int, thresholds: Thresholds
) -> None:
    """That holds for value and average. A metric of zero asks for zero replicas."""
    tolerances = thresholds.tolerances
    share = replica_calculator.replicas_for_share(
        usage, current, observed, target, tolerances
    )
    assert share.replicas >= 0
    assert (share.usage is None) == (observed == 0)
    whole = replica_calculator.replicas_for_value((), usage, 0, target, tolerances)
    assert whole.replicas == -(-usage // target)
    if usage == 0:
        assert (share.replicas, whole.replicas) == (0, 0)


@unhurried
@given(amounts, targets, replicas, replicas, judgements)
def test_the_number_for_a_shared_metric_does_not_depend_on_the_pods_that_exist(
    usage: int, target: int, current: int, observed: int, thresholds: Thresholds
) -> None:
    """During a rolling update, a scaling or a shortage of nodes."""
    numbers = {
        replica_calculator.replicas_for_share(
            usage, current, each, target, thresholds.tolerances
        ).replicas
        for each in (observed, current)
    }
    assert len(numbers) == 1


@unhurried
@given(st.floats(), st.floats())
def test_any_ratio_rounds_to_a_number_of_replicas(amount: float, target: float) -> None:
    """Infinity and NaN are converted, too: Go's result depends on the machine."""
    assert (
        abs(replica_calculator.rounded_up(replica_calculator.ratio(amount, target)))
        <= replica_calculator.MAX_INT32 + 1
    )


@unhurried
@given(st.integers(-(2**62), 2**62), st.integers(1, 2**40))
def test_a_quotient_is_rounded_towards_zero(dividend: int, divisor: int) -> None:
    """As Go divides whole numbers; Python rounds down."""
    quotient = replica_calculator.divided(dividend, divisor)
    assert abs(dividend - quotient * divisor) < divisor
    assert quotient * dividend >= 0
