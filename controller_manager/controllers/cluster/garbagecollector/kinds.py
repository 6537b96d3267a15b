"""Indexes by kind: the nodes of a kind, and the kinds that a kind owns.

With them, the removal of a kind takes time only for the objects of that kind. Without
them, the removal of each of a hundred kinds read all objects of the cluster.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from .node import GroupKind, Identity, Node

_CLAIMS: Final[GroupKind] = ("", "PersistentVolumeClaim")
_PODS: Final[GroupKind] = ("", "Pod")
_POD_GROUPS: Final[GroupKind] = ("scheduling.k8s.io", "PodGroup")
_RESOURCE_CLAIMS: Final[GroupKind] = ("resource.k8s.io", "ResourceClaim")
_REVISIONS: Final[GroupKind] = ("apps", "ControllerRevision")
_SLICES: Final[GroupKind] = ("discovery.k8s.io", "EndpointSlice")
_WORKLOADS: Final[GroupKind] = ("scheduling.k8s.io", "Workload")

USUAL_DEPENDENTS: Final[Mapping[GroupKind, tuple[GroupKind, ...]]] = {
    ("", "Endpoints"): (_SLICES,),
    _PODS: (_CLAIMS, _RESOURCE_CLAIMS),
    ("", "ReplicationController"): (_PODS,),
    ("", "Service"): (_SLICES,),
    ("apps", "DaemonSet"): (_PODS, _REVISIONS),
    ("apps", "Deployment"): (("apps", "ReplicaSet"),),
    ("apps", "ReplicaSet"): (_PODS,),
    ("apps", "StatefulSet"): (_PODS, _REVISIONS, _CLAIMS),
    ("batch", "CronJob"): (("batch", "Job"),),
    ("batch", "Job"): (_PODS, _WORKLOADS, _POD_GROUPS),
    _POD_GROUPS: (_RESOURCE_CLAIMS,),
    _WORKLOADS: (_POD_GROUPS,),
}
"""Kinds of objects that the controllers here create for an owner, or tie to it: a watch
may not have shown the first of them yet. All are served by the API server itself."""


class NodesByKind:
    """The nodes of each kind, in the order of their addition."""

    def __init__(self) -> None:
        """Start without nodes."""
        self._nodes: dict[GroupKind, dict[str, dict[str, Node]]] = {}
        """By kind, apiVersion and uid."""

    def add(self, node: Node) -> None:
        """Add a node under the kind of its identity."""
        identity = node.identity
        versions = self._nodes.setdefault(identity.group_kind, {})
        versions.setdefault(identity.api_version, {})[identity.uid] = node

    def remove(self, identity: Identity) -> None:
        """Remove the node that was added with this identity, if there is one."""
        kind, version = identity.group_kind, identity.api_version
        versions = self._nodes.get(kind, {})
        nodes = versions.get(version, {})
        nodes.pop(identity.uid, None)
        if not nodes:
            versions.pop(version, None)
        if not versions:
            self._nodes.pop(kind, None)

    def of(self, kind: GroupKind, api_version: str) -> list[Node]:
        """Return the nodes of a kind in one version."""
        return list(self._nodes.get(kind, {}).get(api_version, {}).values())

    def __contains__(self, kind: object) -> bool:
        """Tell whether there is a node of a kind, in any version."""
        return kind in self._nodes


class OwnedKinds:
    """The kinds whose objects are dependents of objects of a kind."""

    def __init__(self, usual: Mapping[GroupKind, Iterable[GroupKind]]) -> None:
        self._owned: dict[GroupKind, dict[GroupKind, None]] = {}
        self._owners: dict[GroupKind, dict[GroupKind, None]] = {}
        for owner, kinds in usual.items():
            for kind in kinds:
                self.add(owner, kind)

    def __contains__(self, owner: object) -> bool:
        """Tell whether objects of a kind own others."""
        return owner in self._owned

    def __iter__(self) -> Iterator[GroupKind]:
        """Iterate over the kinds of the owners."""
        return iter(self._owned)

    def of(self, owner: GroupKind) -> list[GroupKind]:
        """Return the kinds that objects of a kind own."""
        return list(self._owned.get(owner, ()))

    def add(self, owner: GroupKind, dependent: GroupKind) -> None:
        """Note that an object of one kind owns an object of another."""
        self._owned.setdefault(owner, {})[dependent] = None
        self._owners.setdefault(dependent, {})[owner] = None

    def forget_owner(self, owner: GroupKind) -> None:
        """Forget all kinds that objects of a kind own."""
        for dependent in self._owned.pop(owner, {}):
            _discard(self._owners, dependent, owner)

    def forget_dependent(self, dependent: GroupKind) -> None:
        """Forget that objects of a kind are owned by others."""
        for owner in self._owners.pop(dependent, {}):
            _discard(self._owned, owner, dependent)


def _discard(
    relation: dict[GroupKind, dict[GroupKind, None]], one: GroupKind, other: GroupKind
) -> None:
    kinds = relation[one]
    del kinds[other]
    if not kinds:
        del relation[one]
