"""Metrics of the component: its versions, feature gates and disabled metrics.

Upstream: component-base pkg/compatibility, metrics/prometheus/feature and metrics.
"""

from collections.abc import Collection, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from controller_manager.version import KUBERNETES_VERSION

_KUBE = "kube"


def register_versions(registry: CollectorRegistry, emulated: str) -> None:
    """Register ``version_info``; `emulated` is a version without ``v``, as 1.36."""
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    info = Gauge(
        "version_info",
        "Always 1, labelled with the versions that the component is compatible with",
        ["binary", "component", "emulation", "min_compat"],
        registry=registry,
    )
    least = f"{major}.{int(emulated.partition('.')[2]) - 1}"
    info.labels(f"{major}.{minor}", _KUBE, emulated, least).set(1)


def register_features(
    registry: CollectorRegistry, gates: Mapping[tuple[str, str], bool]
) -> None:
    """Register ``kubernetes_feature_enabled``.

    `gates` has the values of feature gates by name and stage (ALPHA, BETA, DEPRECATED,
    empty for general availability).
    """
    registry.register(_FeatureCollector(gates))


class _FeatureCollector(Collector):
    """Makes the series of feature gates when they are scraped: there are hundreds."""

    def __init__(self, gates: Mapping[tuple[str, str], bool]) -> None:
        self._gates = gates

    def describe(self) -> Iterable[Metric]:
        yield _features()

    def collect(self) -> Iterable[Metric]:
        family = _features()
        for (name, stage), is_enabled in self._gates.items():
            family.add_metric((name, stage), 1 if is_enabled else 0)
        yield family


def _features() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "kubernetes_feature_enabled",
        "1 if a feature gate is enabled, 0 if not, by name and stage",
        labels=("name", "stage"),
    )


def register_disabled(registry: CollectorRegistry, disabled: Collection[str]) -> None:
    """Register ``disabled_metrics_total``; `disabled` are the names of metrics."""
    counter = Counter(
        "disabled_metrics_total",
        "Metrics that --disabled-metrics leaves out",
        registry=registry,
    )
    counter.inc(len(set(disabled)))
