"""Metrics of the process and of the build."""

from collections.abc import Iterable
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge
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


def register_process(registry: CollectorRegistry) -> None:
    """Register ``process_*`` and ``kubernetes_build_info``."""
    ProcessCollector(registry=registry)
    registry.register(_NetworkCollector())
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    info = Gauge(
        "kubernetes_build_info",
        "Always 1, labelled with the build that runs",
        [
            "build_date",
            "compiler",
            "git_commit",
            "git_tree_state",
            "git_version",
            "go_version",
            "major",
            "minor",
            "platform",
        ],
        registry=registry,
    )
    info.labels(
        "", "python", VERSION, "", KUBERNETES_VERSION, "", major, minor, ""
    ).set(1)
