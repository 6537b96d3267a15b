"""Amounts of metrics as the quantities that a status shows."""

from controller_manager.api.autoscaling.v2 import MetricValueStatus
from controller_manager.api.quantity import Format, Quantity
from controller_manager.controllers.autoscaling.podautoscaler.replicas.compute import (
    Proposal,
)


def shown(milli: int, form: Format = Format.DECIMAL_SI) -> str:
    """Return thousandths as a quantity."""
    return str(Quantity.of_milli(milli, form))


def average_of(proposal: Proposal, resource: str = "") -> MetricValueStatus:
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


def whole_of(proposal: Proposal) -> MetricValueStatus:
    """Return the value that all pods share."""
    return MetricValueStatus(value=shown(proposal.usage or 0))
