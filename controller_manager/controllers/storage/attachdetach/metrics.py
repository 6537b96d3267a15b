"""Metrics of the attach-detach controller, with upstream's names."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from msgspec import Struct
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .plan import ForcedDetach
from .view import NodeView
from .volumes import plugin_name

_FORCED: Final = "attach_detach_controller_attachdetach_controller_forced_detaches"
_TOTAL: Final = "attachdetach_controller_total_volumes"
_IN_USE: Final = "storage_count_attachable_volumes_in_use"


class _Counts(Struct, frozen=True):
    """The volumes of one node by plugin: needed, attached, and used by its pods."""

    desired: Counter[str]
    actual: Counter[str]
    in_use: Counter[str]


class AttachDetachMetrics(Collector):
    """Counts volumes in each sync of their node; upstream counts all in each scrape."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._forced: Counter[str] = Counter({each.value: 0 for each in ForcedDetach})
        self._nodes: dict[str, _Counts] = {}
        registry.register(self)

    def forced(self, reason: ForcedDetach) -> None:
        """Count a volume that was detached by force."""
        self._forced[reason.value] += 1

    def count(self, view: NodeView) -> None:
        """Replace the counts of a node by those of this view."""
        desired: Counter[str] = Counter()
        actual: Counter[str] = Counter()
        for each in view.volumes.values():
            plugin = plugin_name(each.unique_name)
            desired[plugin] += each.volume is not None
            actual[plugin] += each.attachment is not None or each.is_listed
        in_use = Counter(plugin_name(each) for each in view.used_by_pods)
        if view.volumes or in_use:
            self._nodes[view.name] = _Counts(+desired, +actual, in_use)
        else:
            self._nodes.pop(view.name, None)

    def describe(self) -> Iterable[Metric]:
        """Return the metrics without samples."""
        return self._families()

    def collect(self) -> Iterable[Metric]:
        """Return the metrics."""
        forced, total, in_use = self._families()
        for reason, count in self._forced.items():
            forced.add_sample(_FORCED, {"reason": reason}, count)
        desired: Counter[str] = Counter()
        actual: Counter[str] = Counter()
        for node, counts in self._nodes.items():
            desired += counts.desired
            actual += counts.actual
            for plugin, count in counts.in_use.items():
                labels = {"node": node, "volume_plugin": plugin}
                in_use.add_sample(_IN_USE, labels, count)
        states = ("desired_state_of_world", "actual_state_of_world")
        for state, volumes in zip(states, (desired, actual), strict=True):
            for plugin, count in volumes.items():
                labels = {"plugin_name": plugin, "state": state}
                total.add_sample(_TOTAL, labels, count)
        return forced, total, in_use

    def _families(self) -> tuple[Metric, Metric, Metric]:
        # The library would append _total to the name of a counter; upstream has none.
        return (
            Metric(_FORCED, "Number of volumes detached by force", "unknown"),
            GaugeMetricFamily(
                _TOTAL,
                "Number of volumes, wanted and attached",
                labels=("plugin_name", "state"),
            ),
            GaugeMetricFamily(
                _IN_USE,
                "Number of volumes that pods of a node use",
                labels=("node", "volume_plugin"),
            ),
        )
