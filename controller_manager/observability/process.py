"""Metrics of the process: its build and versions, feature gates and disabled metrics.

Upstream: component-base pkg/compatibility, metrics/prometheus/feature and metrics.
"""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
)
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from controller_manager.version import KUBERNETES_VERSION, VERSION


class _NetworkCollector(Collector):
    """Bytes in and out of the process's network namespace (Linux)."""

    def collect(self) -> Iterable[Metric]:
        received, sent = _network_bytes()
        yield CounterMetricFamily(
            "process_network_receive_bytes_total",
            "Number of bytes received by the process over the network",
            value=received,
        )
        yield CounterMetricFamily(
            "process_network_transmit_bytes_total",
            "Number of bytes sent by the process over the network",
            value=sent,
        )
        yield GaugeMetricFamily(
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes",
            value=_address_space_limit(),
        )


def _network_bytes() -> tuple[float, float]:
    received = sent = 0.0
    try:
        with Path("/proc/self/net/dev").open(encoding="ascii") as table:
            for line in table.readlines()[2:]:
                columns = line.partition(":")[2].split()
                received += float(columns[0])
                sent += float(columns[8])
    except OSError:
        return 0.0, 0.0  # not Linux: the series stays at zero
    return received, sent


def _address_space_limit() -> float:
    import resource  # noqa: PLC0415 - absent where there is no such limit

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    # Go prints the unlimited value of a 64-bit rlim_t.
    return float(soft) if soft != resource.RLIM_INFINITY else 2.0**64


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


def register_process(
    registry: CollectorRegistry,
    emulated: str,
    gates: Mapping[tuple[str, str], bool],
    disabled: Collection[str],
) -> None:
    """Register ``process_*``, and the metrics of the build, its gates and its metrics.

    `emulated` is a version without ``v``, as 1.36. `gates` has the values of feature
    gates by name and stage (ALPHA, BETA, DEPRECATED, empty for general availability).
    `disabled` are the names of metrics.
    """
    ProcessCollector(registry=registry)
    registry.register(_NetworkCollector())
    registry.register(_FeatureCollector(gates))
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    build = {
        "build_date": "",
        "compiler": "python",
        "git_commit": VERSION,
        "git_tree_state": "",
        "git_version": KUBERNETES_VERSION,
        "go_version": "",
        "major": major,
        "minor": minor,
        "platform": "",
    }
    Gauge(
        "kubernetes_build_info",
        "Always 1, labelled with the build that runs",
        list(build),
        registry=registry,
    ).labels(**build).set(1)
    versions = {
        "binary": f"{major}.{minor}",
        "component": "kube",
        "emulation": emulated,
        "min_compat": f"{major}.{int(emulated.partition('.')[2]) - 1}",
    }
    Gauge(
        "version_info",
        "Always 1, labelled with the versions that the component is compatible with",
        list(versions),
        registry=registry,
    ).labels(**versions).set(1)
    Counter(
        "disabled_metrics_total",
        "Metrics that --disabled-metrics leaves out",
        registry=registry,
    ).inc(len(set(disabled)))
