"""Workloads: the fields that all kinds with replicas have."""

from controller_manager.api.apps.v1 import Deployment, ReplicaSet
from controller_manager.api.core.v1 import ReplicationController
from controller_manager.api.selectors import LabelSelector

Workload = Deployment | ReplicaSet | ReplicationController


def desired_replicas(obj: Workload) -> int:
    """Return the desired replicas; the API server sets absent replicas to 1."""
    return 1 if obj.spec.replicas is None else obj.spec.replicas


def selector_of(obj: Workload) -> LabelSelector | None:
    """Return the selector; that of a replication controller has only labels."""
    selector = obj.spec.selector
    if isinstance(selector, dict):
        return LabelSelector(match_labels=selector)
    return selector
