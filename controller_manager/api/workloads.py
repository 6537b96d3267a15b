"""Workloads: the fields that all kinds with replicas have."""

from .apps.v1 import Deployment, ReplicaSet, StatefulSet
from .core.v1 import ReplicationController
from .meta import KubeObject
from .selectors import LabelSelector

Workload = Deployment | ReplicaSet | ReplicationController | StatefulSet


def desired_replicas(obj: Workload) -> int:
    """Return the desired replicas; the API server sets absent replicas to 1."""
    return 1 if obj.spec.replicas is None else obj.spec.replicas


def selector_of(obj: KubeObject) -> LabelSelector | None:
    """Return the selector of an object's spec, `None` if it has none.

    The selector of a replication controller has only labels. Owners of many kinds have
    no selector, or no spec.
    """
    selector = getattr(getattr(obj, "spec", None), "selector", None)
    if isinstance(selector, dict):
        return LabelSelector(match_labels=selector)
    return selector if isinstance(selector, LabelSelector) else None
