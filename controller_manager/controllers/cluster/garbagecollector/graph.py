"""The graph of owners and dependents (graph_builder.go); it never calls the API server.

Nodes are objects, found by uid. An owner that no watch has shown yet is a virtual
node: it has dependents, and the API server must be asked whether it exists.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from controller_manager.api.meta import (
    AnyResource,
    KubeObject,
    OwnerReference,
    is_deleting,
)
from controller_manager.control.recent_set import RecentSet

FOREGROUND_FINALIZER: Final = "foregroundDeletion"
ORPHAN_FINALIZER: Final = "orphan"

_NODES_PER_STEP: Final = 20
"""The number of objects that are forgotten before other tasks may run: below 1 ms."""

GroupKind = tuple[str, str]
"""A group and a kind, without a version."""

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


_NO_DEPENDENTS: Final[Mapping["Node", None]] = {}


class Identity(NamedTuple):
    """The identity of an object: all fields of an owner reference, and a namespace."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    @property
    def group(self) -> str:
        """The group, empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """The version alone."""
        return self.api_version.rpartition("/")[2]

    @property
    def group_kind(self) -> GroupKind:
        """The group and the kind."""
        return self.group, self.kind

    def __str__(self) -> str:
        """Return the text that upstream's events and logs show."""
        return (
            f"[{self.api_version}/{self.kind}, namespace: {self.namespace}, "
            f"name: {self.name}, uid: {self.uid}]"
        )


def identity_of(resource: AnyResource, obj: KubeObject) -> Identity:
    """Return the identity of an object."""
    metadata = obj.metadata
    return Identity(
        resource.api_version,
        resource.kind,
        metadata.namespace,
        metadata.name,
        metadata.uid,
    )


def named_by(reference: OwnerReference, namespace: str) -> Identity:
    """Return the identity of the owner that a reference in `namespace` names."""
    return Identity(
        reference.api_version, reference.kind, namespace, reference.name, reference.uid
    )


@dataclass(slots=True, eq=False)
class Node:
    """An object with its owners and its dependents.

    Most objects have no dependents, so the dict for them is made when it is needed.
    """

    identity: Identity
    owners: tuple[OwnerReference, ...] = ()
    is_virtual: bool = False
    is_being_deleted: bool = False
    is_deleting_dependents: bool = False
    attempts: int = 0
    _dependents: dict["Node", None] | None = field(default=None, repr=False)

    @property
    def uid(self) -> str:
        """The object's uid."""
        return self.identity.uid

    @property
    def dependents(self) -> Mapping["Node", None]:
        """The nodes that name this one as an owner, in the order of their addition."""
        return self._dependents or _NO_DEPENDENTS

    def add_dependent(self, node: "Node") -> None:
        """Note that `node` names this one as an owner."""
        if self._dependents is None:
            self._dependents = {}
        self._dependents[node] = None

    def drop_dependent(self, node: "Node") -> None:
        """Note that `node` does not name this one as an owner any more."""
        if self._dependents is not None:
            self._dependents.pop(node, None)
            self._dependents = self._dependents or None

    def blocking_dependents(self) -> list["Node"]:
        """Return the dependents that a foreground deletion waits for."""
        return [
            node
            for node in self.dependents
            if any(
                owner.uid == self.uid and owner.block_owner_deletion
                for owner in node.owners
            )
        ]


def has_finalizer(obj: KubeObject, finalizer: str) -> bool:
    """Tell whether an object has a finalizer."""
    return finalizer in (obj.metadata.finalizers or ())


def waits_for(obj: KubeObject, finalizer: str) -> bool:
    """Tell whether an object is being deleted and that finalizer keeps it."""
    return is_deleting(obj) and has_finalizer(obj, finalizer)


class Graph:
    """All objects that watches have shown, or that owner references name.

    `to_delete` and `to_orphan` are called with the uid of an object that must be
    checked after a change; `on_invalid_namespace` with a dependent and its reference
    to an owner in another namespace; `on_forget` with the uid of each object that is
    removed from the graph. `is_served` tells whether a kind is served; kinds that are
    not served are forgotten.
    """

    def __init__(
        self,
        to_delete: Callable[[str], None],
        to_orphan: Callable[[str], None],
        on_invalid_namespace: Callable[[Node, OwnerReference], None],
        on_forget: Callable[[str], None] = lambda _: None,
        is_served: Callable[[GroupKind], bool] = lambda _: True,
    ) -> None:
        self._on_forget = on_forget
        self._is_served = is_served
        self._to_delete = to_delete
        self._to_orphan = to_orphan
        self._on_invalid_namespace = on_invalid_namespace
        self.nodes: dict[str, Node] = {}
        """All nodes by uid, in the order of their addition."""
        self._by_kind: dict[tuple[str, str], dict[str, Node]] = {}
        """The nodes by apiVersion and kind, and by uid; so the removal of each of a
        hundred kinds does not read all objects of the cluster."""
        self._owned: dict[GroupKind, dict[GroupKind, None]] = {
            owner: dict.fromkeys(kinds) for owner, kinds in USUAL_DEPENDENTS.items()
        }
        """The kinds of which objects of a kind own objects."""
        self.deleted_owners: RecentSet[str] = RecentSet()
        """uids of the last owners whose deletion a watch has shown."""

    def kinds_owned_by(self, identity: Identity) -> list[GroupKind]:
        """Return the kinds that objects of this kind own usually, or have owned."""
        usual = USUAL_DEPENDENTS.get(identity.group_kind, ())
        # The usual ones may have been forgotten when they were not served.
        owned = self._owned.get(identity.group_kind, ())
        return list(dict.fromkeys((*usual, *owned)))

    # Changes that watches show.

    def seen(
        self, resource: AnyResource, old: KubeObject | None, new: KubeObject
    ) -> None:
        """Add or update an object that a watch has shown."""
        metadata = new.metadata
        owners = metadata.owner_references or ()
        node = self.nodes.get(metadata.uid)
        if node is None:
            node = Node(identity_of(resource, new), owners)
            self._insert(node)
            self._add_to_owners(node, owners)
        else:
            if node.is_virtual or not _is_of(node, resource):
                self._set_identity(node, identity_of(resource, new))
            if node.owners != owners:
                self._change_owners(node, owners)
        if is_deleting(new):
            node.is_being_deleted = True
        self._enqueue_if_deletion_begins(old, new, node)

    def gone(self, obj: KubeObject) -> None:
        """Remove an object whose deletion a watch has shown."""
        if node := self.nodes.get(obj.metadata.uid):
            if node.dependents:
                self.deleted_owners.add(node.uid)
            self._remove(node)

    def forget(self, resource: AnyResource) -> Iterator[None]:
        """Forget the objects of a resource that is not served any more.

        Objects with dependents become virtual nodes; the others are removed. Yields
        after a few objects: the graph may change meanwhile, and an object that a watch
        shows in another version meanwhile is kept.
        """
        nodes = self._by_kind.get((resource.api_version, resource.kind), {})
        for number, node in enumerate(list(nodes.values())):
            if number % _NODES_PER_STEP == _NODES_PER_STEP - 1:
                yield
            if self.nodes.get(node.uid) is not node or not _is_of(node, resource):
                continue  # it was removed, or a watch has shown it again
            if node.dependents:
                self._change_owners(node, ())
                node.is_virtual = True
                node.is_being_deleted = node.is_deleting_dependents = False
                self._to_delete(node.uid)
            else:
                self._remove(node)

    def forget_kind(self, resource: AnyResource) -> None:
        """Forget a kind of dependents, and of owners unless a node is of that kind."""
        kind = resource.group, resource.kind
        for owner, owned in list(self._owned.items()):
            owned.pop(kind, None)
            if not owned:
                del self._owned[owner]
        nodes = {(version.rpartition("/")[0], name) for version, name in self._by_kind}
        if kind not in nodes:
            self._owned.pop(kind, None)

    # Results of quorum reads.

    def absent(self, identity: Identity) -> None:
        """Note that the API server has no object with this identity.

        References of dependents may name different objects with the same uid. Then
        only the dependents that name this identity have lost their owner, and the node
        is checked again with another identity.
        """
        node = self.nodes.get(identity.uid)
        if node is None:
            return
        matching, nonmatching = _partition(node.dependents, identity)
        # A watch has missed the deletion of a known node, or will show it later.
        is_gone = not nonmatching if node.is_virtual else node.identity == identity
        if is_gone:
            self._remove(node)
            return
        for dependent in matching:
            self._to_delete(dependent.uid)
        if node.is_virtual and node.identity == identity:
            # Check the identity that the other dependents name next.
            self._identify(node, _other_identity(nonmatching, identity))

    # Updates of nodes.

    def _set_identity(self, node: Node, identity: Identity) -> None:
        if node.is_virtual and node.identity != identity:
            _, nonmatching = _partition(node.dependents, identity)
            for dependent in nonmatching:
                # Their reference may be wrong; if it is right, a check does no harm.
                if _has_invalid_namespace(identity, dependent):
                    self._report_invalid_namespace(dependent, identity.uid)
                self._to_delete(dependent.uid)
        self._identify(node, identity)
        node.is_virtual = False
        for reference in node.owners:
            owner = named_by(reference, identity.namespace)
            self._owned.setdefault(owner.group_kind, {})[identity.group_kind] = None

    def _identify(self, node: Node, identity: Identity) -> None:
        self._drop_from_kind(node.identity)
        node.identity = identity
        self._insert(node)

    def _enqueue_if_deletion_begins(
        self, old: KubeObject | None, new: KubeObject, node: Node
    ) -> None:
        """Enqueue the objects to check when an orphan or foreground deletion begins."""
        if _begins(old, new, ORPHAN_FINALIZER):
            self._to_orphan(node.uid)
        elif _begins(old, new, FOREGROUND_FINALIZER):
            node.is_deleting_dependents = True
            for dependent in node.dependents:
                self._to_delete(dependent.uid)
            self._to_delete(node.uid)

    def _insert(self, node: Node) -> None:
        identity = node.identity
        self.nodes[identity.uid] = node
        self._by_kind.setdefault(identity[:2], {})[identity.uid] = node

    def _drop_from_kind(self, identity: Identity) -> None:
        nodes = self._by_kind[identity[:2]]
        del nodes[identity.uid]
        if not nodes:
            del self._by_kind[identity[:2]]

    def _drop(self, node: Node) -> None:
        del self.nodes[node.uid]
        self._drop_from_kind(node.identity)
        self._on_forget(node.uid)

    def _remove(self, node: Node) -> None:
        self._drop(node)
        self._drop_from_owners(node, node.owners)
        for dependent in node.dependents:
            self._to_delete(dependent.uid)
        for reference in node.owners:
            owner = self.nodes.get(reference.uid)
            if owner and owner.is_deleting_dependents:
                self._to_delete(owner.uid)  # it waits for its dependents

    def _add_to_owners(self, node: Node, owners: Iterable[OwnerReference]) -> None:
        must_check = False
        kind, namespace = node.identity.group_kind, node.identity.namespace
        for reference in owners:
            identity = named_by(reference, namespace)
            self._owned.setdefault(identity.group_kind, {})[kind] = None
            owner = self.nodes.get(reference.uid)
            if owner is None:
                owner = Node(identity, is_virtual=True)
                self._insert(owner)
                owner.add_dependent(node)
                self._to_delete(owner.uid)
                continue
            owner.add_dependent(node)
            if _has_invalid_namespace(owner.identity, node):
                if not owner.is_virtual:
                    self._report_invalid_namespace(node, reference.uid)
                must_check = True
            elif not _matches(reference, namespace, owner):
                must_check = True
        if must_check:
            self._to_delete(node.uid)

    def _drop_from_owners(self, node: Node, owners: Iterable[OwnerReference]) -> None:
        for reference in owners:
            if owner := self.nodes.get(reference.uid):
                owner.drop_dependent(node)
                if owner.is_virtual and not owner.dependents:
                    self._drop(owner)  # no reference names it any more
                    self._forget_unserved_kind(owner.identity.group_kind)

    def _forget_unserved_kind(self, kind: GroupKind) -> None:
        """Forget a kind that only owner references name and that is not served.

        A user who may create objects can name any number of kinds.
        """
        if kind in self._owned and not self._is_served(kind):
            del self._owned[kind]

    def _change_owners(self, node: Node, owners: tuple[OwnerReference, ...]) -> None:
        before = {each.uid: each for each in node.owners}
        after = {each.uid: each for each in owners}
        for uid, reference in before.items():
            kept = after.get(uid)
            unblocked = kept is None or not kept.block_owner_deletion
            if reference.block_owner_deletion and unblocked and uid in self.nodes:
                self._to_delete(uid)  # it may have waited for this dependent only
        node.owners = owners
        new = [each for uid, each in after.items() if uid not in before]
        self._add_to_owners(node, new)
        lost = [each for uid, each in before.items() if uid not in after]
        self._drop_from_owners(node, lost)

    def _report_invalid_namespace(self, node: Node, uid: str) -> None:
        reference = next(each for each in node.owners if each.uid == uid)
        self._on_invalid_namespace(node, reference)


def _is_of(node: Node, resource: AnyResource) -> bool:
    return node.identity[:2] == (resource.api_version, resource.kind)


def _begins(old: KubeObject | None, new: KubeObject, finalizer: str) -> bool:
    """Tell whether a deletion that waits for this finalizer has just begun."""
    is_old = old is not None and waits_for(old, finalizer)
    return not is_old and waits_for(new, finalizer)


def _has_invalid_namespace(owner: Identity, dependent: Node) -> bool:
    return bool(owner.namespace) and owner.namespace != dependent.identity.namespace


def _matches(reference: OwnerReference, namespace: str, owner: Node) -> bool:
    known = owner.identity
    if named_by(reference, known.namespace) != known:
        return False
    # A virtual owner without a namespace may be a namespaced object that a
    # cluster-scoped object refers to by mistake (kubernetes#98040).
    return bool(known.namespace) or not owner.is_virtual or not namespace


def _partition(
    dependents: Iterable[Node], identity: Identity
) -> tuple[list[Node], list[Node]]:
    """Return the dependents whose references match `identity`, and the others.

    A dependent with several references to the uid may be among both.
    """
    matching: list[Node] = []
    nonmatching: list[Node] = []
    for dependent in dependents:
        namespace = dependent.identity.namespace
        may_match = not identity.namespace or namespace == identity.namespace
        fits = {
            may_match and named_by(each, identity.namespace) == identity
            for each in dependent.owners
            if each.uid == identity.uid
        }
        if True in fits:
            matching.append(dependent)
        if False in fits:
            nonmatching.append(dependent)
    return matching, nonmatching


def _other_identity(dependents: Sequence[Node], known: Identity) -> Identity:
    """Return the identity that dependents name next for this uid, in sorted order."""
    named = sorted(
        {
            named_by(each, dependent.identity.namespace)
            for dependent in dependents
            for each in dependent.owners
            if each.uid == known.uid
        }
    )
    return next((each for each in named if each > known), named[0])
