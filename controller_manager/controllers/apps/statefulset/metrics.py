"""Metrics of stateful sets, with upstream's names."""

from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from controller_manager.api.apps.v1 import CONTROLLER_REVISIONS, STATEFUL_SETS
from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import PODS
from controller_manager.control.stale_syncs import StaleSyncs

_LABELS: Final = ("statefulset_namespace", "statefulset_name", "pod_management_policy")


class StatefulSetMetrics:
    """The ``statefulset_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self.stale_syncs = StaleSyncs(
            registry,
            "statefulset_controller",
            STATEFUL_SETS,
            CONTROLLER_REVISIONS,
            PODS,
            CLAIMS,
        )
        self._max_unavailable = Gauge(
            "statefulset_controller_statefulset_max_unavailable",
            "Maximum number of unavailable pods during a rolling update",
            _LABELS,
            registry=registry,
        )
        self._unavailable = Gauge(
            "statefulset_controller_statefulset_unavailable_replicas",
            "Number of wanted pods that are missing or unavailable",
            _LABELS,
            registry=registry,
        )
        self._policies: dict[tuple[str, str], str] = {}
        """The pod management policies of the sets that the gauges show."""

    def availability(
        self, namespace: str, name: str, policy: str, allowed: int, unavailable: int
    ) -> None:
        """Show the numbers of pods of a set that may be and that are unavailable."""
        if self._policies.get((namespace, name), policy) != policy:
            self.forget(namespace, name)
        self._policies[namespace, name] = policy
        self._max_unavailable.labels(namespace, name, policy).set(allowed)
        self._unavailable.labels(namespace, name, policy).set(unavailable)

    def forget(self, namespace: str, name: str) -> None:
        """Remove the values of a set that is gone."""
        policy = self._policies.pop((namespace, name), None)
        if policy is not None:
            self._max_unavailable.remove(namespace, name, policy)
            self._unavailable.remove(namespace, name, policy)
