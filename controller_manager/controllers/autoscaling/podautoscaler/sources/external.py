"""Metrics of nothing in the cluster, from external.metrics.k8s.io."""

from collections.abc import Sequence
from typing import Final

from controller_manager.api.external_metrics.v1beta1 import ExternalMetricValueList
from controller_manager.controllers.autoscaling.podautoscaler.replicas.amounts import (
    milli_value,
)
from controller_manager.controllers.autoscaling.podautoscaler.replicas.samples import (
    ComputationError,
)
from controller_manager.controllers.autoscaling.podautoscaler.sources import (
    reading,
)

GROUP: Final = "external.metrics.k8s.io"


class ExternalMetrics:
    """Reads the series of a metric by their labels."""

    def __init__(self, api: reading.MetricsAPI) -> None:
        """Take the API."""
        self.api = api

    async def values(self, namespace: str, metric: str, selector: str) -> Sequence[int]:
        """Return the values, in thousandths, of the series that a selector selects.

        Raises ComputationError, and what `MetricsAPI.read` raises.
        """
        path = ("v1beta1", "namespaces", namespace, metric)
        subject = f"{metric}.{GROUP}"
        try:
            answer = await self.api.read(
                path, ExternalMetricValueList, subject, labelSelector=selector
            )
        except ComputationError as error:
            msg = f"unable to fetch metrics from external metrics API: {error}"
            raise ComputationError(msg) from error
        if not answer.items:
            msg = "no metrics returned from external metrics API"
            raise ComputationError(msg)
        with reading.checked("external"):
            return [milli_value(str(each.value)) for each in answer.items]
