"""The pods of a node, found by an index."""

from collections.abc import Iterable
from typing import Final

from controller_manager.api.core.v1 import Pod
from controller_manager.informers.indexes import Index


def _node_of(pod: Pod) -> Iterable[str]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def has_same_node(old: Pod, new: Pod) -> bool:
    """Tell whether two versions of a pod are bound to the same node, or to none."""
    return old.spec.node_name == new.spec.node_name


PODS_BY_NODE: Final = Index("node", _node_of, has_same_node)
"""Pods by the name of the node that they are bound to."""
