"""The pods of a node, found by an index."""

from collections.abc import Iterable
from typing import Final

from controller_manager.api.core.v1 import Pod
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.indexes import Index


def _node_of(pod: Pod) -> Iterable[str]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


PODS_BY_NODE: Final = Index("node", _node_of, depends_on=DependsOn("spec.nodeName"))
"""Pods by the name of the node that they are bound to."""
