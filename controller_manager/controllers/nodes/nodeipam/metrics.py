"""Metrics of the ranges of nodes, with upstream's names (cidrset/metrics.go)."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from .cidr_set import CIDRSet

_PREFIX: Final = "node_ipam_controller"
_LABELS: Final = ("clusterCIDR",)
_TRIES: Final = (1, 5, 25, 125, 625)


class NodeIPAMMetrics:
    """The ``node_ipam_controller_*`` metrics, and whether the controller runs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._allocations = Counter(
            f"{_PREFIX}_cidrset_cidrs_allocations_total",
            "Counter measuring total number of CIDR allocations.",
            _LABELS,
            registry=registry,
        )
        self._releases = Counter(
            f"{_PREFIX}_cidrset_cidrs_releases_total",
            "Counter measuring total number of CIDR releases.",
            _LABELS,
            registry=registry,
        )
        # Upstream's name has the letters in this order.
        self._most = Gauge(
            f"{_PREFIX}_cirdset_max_cidrs",
            "Maximum number of CIDRs that can be allocated.",
            _LABELS,
            registry=registry,
        )
        self._usage = Gauge(
            f"{_PREFIX}_cidrset_usage_cidrs",
            "Gauge measuring percentage of allocated CIDRs.",
            _LABELS,
            registry=registry,
        )
        self._tries = Histogram(
            f"{_PREFIX}_cidrset_allocation_tries_per_request",
            "Number of CIDRs that were in use before a free one was found",
            _LABELS,
            buckets=_TRIES,
            registry=registry,
        )

        self._running = Gauge(
            "running_managed_controllers",
            "Indicates where instances of a controller are currently running",
            ("name", "manager"),
            registry=registry,
        )

    def started(self) -> None:
        """Show that the controller runs; upstream shows this controller only."""
        self._running.labels("nodeipam", "kube-controller-manager").set(1)

    def made(self, ranges: CIDRSet) -> None:
        """Show a new set of ranges."""
        self._most.labels(str(ranges.network)).set(ranges.size)
        self._show_usage(ranges)

    def tried(self, ranges: CIDRSet, tries: int) -> None:
        """Observe the number of taken ranges before a free one was found."""
        self._tries.labels(str(ranges.network)).observe(tries)

    def occupied(self, ranges: CIDRSet, count: int) -> None:
        """Count ranges that are in use now."""
        self._allocations.labels(str(ranges.network)).inc(count)
        self._show_usage(ranges)

    def freed(self, ranges: CIDRSet, count: int) -> None:
        """Count ranges that are free now."""
        self._releases.labels(str(ranges.network)).inc(count)
        self._show_usage(ranges)

    def _show_usage(self, ranges: CIDRSet) -> None:
        self._usage.labels(str(ranges.network)).set(ranges.taken / ranges.size)
