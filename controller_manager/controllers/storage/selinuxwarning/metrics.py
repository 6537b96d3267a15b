"""The metric of conflicts about volumes, with upstream's name."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from controller_manager.api.meta import split_key

from .conflicts import Conflict


def _none() -> Iterator[Conflict]:
    return iter(())


class SELinuxWarningMetrics(Collector):
    """One sample, always 1, for each conflict and each of its two pods."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collector."""
        self._conflicts: Callable[[], Iterator[Conflict]] = _none
        registry.register(self)

    def show(self, conflicts: Callable[[], Iterator[Conflict]]) -> None:
        """Use this function to read the conflicts from now on."""
        self._conflicts = conflicts

    def collect(self) -> Iterable[Metric]:
        """Return the metric with all conflicts."""
        family = GaugeMetricFamily(
            "selinux_warning_controller_selinux_volume_conflict",
            "Conflict between two Pods using the same volume",
            labels=(
                "property",
                *("pod1_namespace", "pod1_name", "pod1_value"),
                *("pod2_namespace", "pod2_name", "pod2_value"),
            ),
        )
        # Two pods may have the same conflict about several volumes.
        for each in dict.fromkeys(self._conflicts()):
            pod, other = split_key(each.pod), split_key(each.other)
            values = (each.name, *pod, each.value, *other, each.other_value)
            family.add_metric(values, 1)
        yield family
