"""The evaluation of one metric: its context, its result, and its status."""

from collections.abc import Callable, Sequence
from datetime import datetime

from msgspec import Struct

from controller_manager.api.autoscaling.v2 import MetricStatus, MetricValueStatus
from controller_manager.api.core.v1 import Pod
from controller_manager.api.quantity import Format, Quantity
from controller_manager.api.selectors import LabelSelector, format_selector

from . import replica_calculator
from .metrics_client import MetricsClient
from .options import Thresholds


class Target(Struct, frozen=True):
    """The target of an autoscaler, as it is now.

    `desired` and `observed` are the replicas in spec and status of its scale;
    `selector` is the scale's. `find_pods` returns the pods that it selects now: an
    answer of a metrics API may take long, and the pods may have changed meanwhile.
    """

    namespace: str
    desired: int
    observed: int
    selector: str
    find_pods: Callable[[], Sequence[Pod]]


class EvaluationContext(Struct, frozen=True):
    """The target, the metrics client and the thresholds of an evaluation.

    With `pod_level`, the requests of a pod as a whole count instead of its containers'.
    """

    metrics_client: MetricsClient
    target: Target
    thresholds: Thresholds
    now: datetime
    pod_level: bool


class Evaluation(Struct, frozen=True):
    """The replicas that a metric asks for, its name in messages, and its status."""

    replicas: int
    name: str
    status: MetricStatus


class MetricFailure(Exception):
    """A metric from which no number of replicas can be computed.

    `reason` and `cause` are those of the event and of the condition; the message of
    the exception has more details, as upstream's. `is_spec` is true if the spec of
    the autoscaler is the cause.
    """

    def __init__(
        self, cause: str, reason: str, message: str, *, is_spec: bool = False
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.cause = cause
        self.is_spec = is_spec


def shown(milli: int, form: Format = Format.DECIMAL_SI) -> str:
    """Return thousandths as a quantity."""
    return str(Quantity.of_milli(milli, form))


def average_of(
    proposal: replica_calculator.Proposal, resource: str = ""
) -> MetricValueStatus:
    """Return the average for one pod; nothing if there is no pod.

    Memory is shown in powers of 1024, as a metrics server shows it (buildQuantity).
    """
    if proposal.usage is None:
        return MetricValueStatus()
    form = Format.BINARY_SI if resource == "memory" else Format.DECIMAL_SI
    return MetricValueStatus(
        average_value=shown(proposal.usage, form),
        average_utilization=proposal.utilization,
    )


def whole_of(proposal: replica_calculator.Proposal) -> MetricValueStatus:
    """Return the value that all pods share."""
    return MetricValueStatus(value=shown(proposal.usage or 0))


def go_selector(selector: LabelSelector | None) -> str:
    """Return a selector as Go prints it with ``%+v``; it is part of metrics' names."""
    if selector is None:
        return "nil"
    labels = "".join(
        f"{key}: {value},"
        for key, value in sorted((selector.match_labels or {}).items())
    )
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{each.key},Operator:{each.operator},"
        f"Values:[{' '.join(each.values or ())}],}},"
        for each in selector.match_expressions or ()
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def query_of(selector: LabelSelector | None) -> str:
    """Return a metric's selector as the query of a request; without one it is empty."""
    return "" if selector is None else format_selector(selector)
