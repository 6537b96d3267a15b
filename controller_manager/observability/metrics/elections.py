"""The metrics of leader elections."""

from prometheus_client import CollectorRegistry, Counter, Gauge


class ElectionCollectors:
    """The ``leader_election_*`` metrics of all leases."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._master = Gauge(
            "leader_election_master_status",
            "1 if this process holds the lease of that name, 0 if it stands by",
            ["name"],
            registry=registry,
        )
        self._slow_path = Counter(
            "leader_election_slowpath_total",
            "Renewals that had to read the lease first",
            ["name"],
            registry=registry,
        )

    def lease(self, name: str) -> "LeaseMetrics":
        """Return the metrics of the lease of that name."""
        return LeaseMetrics(self._master.labels(name), self._slow_path.labels(name))


class LeaseMetrics:
    """The ``leader_election_*`` metrics of one lease."""

    def __init__(self, master: Gauge, slow_path: Counter) -> None:
        self._master = master
        self._slow_path = slow_path

    def set_leading(self, *, leading: bool) -> None:
        """Set whether this process leads."""
        self._master.set(1 if leading else 0)

    def slow_path(self) -> None:
        """Count a renewal that had to read the lease first."""
        self._slow_path.inc()
