"""Who depends on whom (graph_builder.go), without a word to the API server.

Nodes are objects, found by uid. An owner that nobody has seen yet is a virtual
node: a place for its dependents, and a question to be asked.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from controller_manager.api.meta import KubeObject, OwnerReference, is_deleting
from controller_manager.api.resource import AnyResource
from controller_manager.controllers.cluster.garbagecollector.recent import Recent

FOREGROUND_FINALIZER: Final = "foregroundDeletion"
ORPHAN_FINALIZER: Final = "orphan"

_NO_DEPENDENTS: Final[Mapping["Node", None]] = {}


GroupKind = tuple[str, str]
"""A group and a kind, whatever its version."""


class Identity(NamedTuple):
    """All that an owner reference says of an owner, and its namespace."""

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

    def __str__(self) -> str:
        """Return it as upstream's events and logs show it."""
        return (
            f"[{self.api_version}/{self.kind}, namespace: {self.namespace}, "
            f"name: {self.name}, uid: {self.uid}]"
        )


def identity_of(reference: OwnerReference, namespace: str) -> Identity:
    """Return whom a reference in that namespace means."""
    return Identity(
        reference.api_version,
        reference.kind,
        namespace,
        reference.name,
        reference.uid,
    )


class Node:
    """An object: what the cache of its resource knows, and who depends on it.

    Most objects have no dependents, so they carry no place for any.
    """

    __slots__ = (
        "_dependents",
        "identity",
        "is_being_deleted",
        "is_deleting_dependents",
        "is_virtual",
        "looks",
        "owners",
    )

    def __init__(
        self,
        identity: Identity,
        owners: tuple[OwnerReference, ...] = (),
        *,
        virtual: bool = False,
    ) -> None:
        """Take who it is and whose."""
        self.identity = identity
        self.owners = owners
        self.is_virtual = virtual
        self.is_being_deleted = False
        self.is_deleting_dependents = False
        self.looks = 0
        self._dependents: dict[Node, None] | None = None

    @property
    def uid(self) -> str:
        """The object's uid."""
        return self.identity.uid

    @property
    def dependents(self) -> Mapping["Node", None]:
        """Who names it as an owner, in the order of their coming."""
        return self._dependents or _NO_DEPENDENTS

    def add_dependent(self, node: "Node") -> None:
        """Note that `node` names this one as an owner."""
        if self._dependents is None:
            self._dependents = {}
        self._dependents[node] = None

    def drop_dependent(self, node: "Node") -> None:
        """Note that it does so no longer."""
        if self._dependents is not None:
            self._dependents.pop(node, None)
            if not self._dependents:
                self._dependents = None

    def blocking_dependents(self) -> list["Node"]:
        """Return the dependents that a foreground deletion waits for."""
        return [
            dependent
            for dependent in self.dependents
            if any(
                owner.uid == self.uid and owner.block_owner_deletion
                for owner in dependent.owners
            )
        ]


def has_finalizer(obj: KubeObject, finalizer: str) -> bool:
    """Tell whether an object has a finalizer."""
    return finalizer in (obj.metadata.finalizers or ())


def waits_for(obj: KubeObject, finalizer: str) -> bool:
    """Tell whether an object is being deleted and that finalizer holds it."""
    return is_deleting(obj) and has_finalizer(obj, finalizer)


class Graph:
    """All objects, as far as they were seen or are spoken of.

    `to_delete` and `to_orphan` are called with the uid of whatever must be
    looked at after a change; `misplaced` with a dependent and the reference in
    it to an owner of another namespace; `forgotten` with the uid of each object
    that is neither known nor spoken of any more. `is_served` tells whether there
    can be objects of a kind; of others nothing is remembered.
    """

    def __init__(
        self,
        to_delete: Callable[[str], None],
        to_orphan: Callable[[str], None],
        misplaced: Callable[[Node, OwnerReference], None],
        forgotten: Callable[[str], None] = lambda _: None,
        is_served: Callable[[GroupKind], bool] = lambda _: True,
    ) -> None:
        """Start with nothing."""
        self._forgotten = forgotten
        self._is_served = is_served
        self._to_delete = to_delete
        self._to_orphan = to_orphan
        self._misplaced = misplaced
        self._nodes: dict[str, Node] = {}
        self._kinds: dict[GroupKind, dict[GroupKind, None]] = {}
        self._gone: Recent[str] = Recent()

    def __len__(self) -> int:
        """Return how many nodes there are, virtual ones included."""
        return len(self._nodes)

    def get(self, uid: str) -> Node | None:
        """Return the node of that uid."""
        return self._nodes.get(uid)

    def nodes(self) -> list[Node]:
        """Return all nodes, in the order in which they were first spoken of."""
        return list(self._nodes.values())

    def kinds_owned_by(self, identity: Identity) -> list[GroupKind]:
        """Return what kinds of objects have ever had an owner of such a kind."""
        return list(self._kinds.get(_group_kind(identity), ()))

    def was_seen_to_go(self, uid: str) -> bool:
        """Tell whether a watch has shown the deletion of that owner.

        Only the last ones are remembered.
        """
        return uid in self._gone

    # What the watches say.

    def seen(
        self, resource: AnyResource, old: KubeObject | None, new: KubeObject
    ) -> None:
        """Take note of an object that is new or has changed."""
        metadata = new.metadata
        owners = metadata.owner_references or ()
        node = self._nodes.get(metadata.uid)
        if node is None:
            node = Node(_identity(resource, new), owners)
            self._nodes[metadata.uid] = node
            self._add_to_owners(node, owners)
        else:
            if node.is_virtual or node.identity.api_version != resource.api_version:
                self._recognise(node, _identity(resource, new))
            if node.owners != owners:
                self._change_owners(node, owners)
        if is_deleting(new):
            node.is_being_deleted = True
        self._deletion_may_begin(old, new, node)

    def gone(self, obj: KubeObject) -> None:
        """Take note that an object was seen to be gone."""
        node = self._nodes.get(obj.metadata.uid)
        if node is None:
            return
        if node.dependents:
            self._gone.add(node.uid)
        self._remove(node)

    def forget(self, resource: AnyResource) -> None:
        """Take note that a resource is served no more: its objects are unknown.

        Whom others depend on becomes a question again; the rest is dropped.
        """
        for node in self.nodes():
            if self._nodes.get(node.uid) is not node:
                continue  # it went with what was dropped before it
            identity = node.identity
            if (identity.api_version, identity.kind) != (
                resource.api_version,
                resource.kind,
            ):
                continue
            if node.dependents:
                self._change_owners(node, ())
                node.is_virtual = True
                node.is_being_deleted = node.is_deleting_dependents = False
                self._to_delete(node.uid)
            else:
                self._drop(node)
                self._drop_from_owners(node, node.owners)
                self._last_may_have_gone(node)

    def forget_kind(self, resource: AnyResource) -> None:
        """Take note that objects of a kind cannot be owners or dependents any more.

        As an owner the kind is remembered for as long as somebody refers to one.
        """
        kind = resource.group, resource.kind
        for dependents in self._kinds.values():
            dependents.pop(kind, None)
        if not any(_group_kind(node.identity) == kind for node in self.nodes()):
            self._kinds.pop(kind, None)
        for owner in [owner for owner, each in self._kinds.items() if not each]:
            del self._kinds[owner]

    # What the API server has said when it was asked.

    def absent(self, identity: Identity) -> None:
        """Take note that there is no such object.

        If dependents mean different objects by one uid, only those that mean
        this one have lost their owner, and the node is to be asked about again.
        """
        node = self._nodes.get(identity.uid)
        if node is None:
            return
        if node.identity == identity and not node.is_virtual:
            # Its deletion was missed, or is still to come by the watch.
            self._remove(node)
            return
        meant, otherwise = _parted(node.dependents, identity)
        if node.is_virtual and not otherwise:
            self._remove(node)
            return
        for dependent in meant:
            self._to_delete(dependent.uid)
        if node.is_virtual and node.identity == identity:
            # The question is now about what the others mean.
            node.identity = _other_identity(otherwise, identity)

    # Bookkeeping.

    def _recognise(self, node: Node, identity: Identity) -> None:
        """Make a virtual node, or one of another version, what was seen of it."""
        if node.is_virtual and node.identity != identity:
            _, otherwise = _parted(node.dependents, identity)
            for dependent in otherwise:
                # Their reference may be wrong; if it is not, looking does no harm.
                if _is_misplaced(identity, dependent):
                    self._report(dependent, identity.uid)
                self._to_delete(dependent.uid)
        node.identity = identity
        node.is_virtual = False

    def _deletion_may_begin(
        self, old: KubeObject | None, new: KubeObject, node: Node
    ) -> None:
        """Look closer when a deletion that concerns dependents begins."""
        if _begins(old, new, ORPHAN_FINALIZER):
            self._to_orphan(node.uid)
        elif _begins(old, new, FOREGROUND_FINALIZER):
            node.is_deleting_dependents = True
            for dependent in node.dependents:
                self._to_delete(dependent.uid)
            self._to_delete(node.uid)

    def _drop(self, node: Node) -> None:
        del self._nodes[node.uid]
        self._forgotten(node.uid)

    def _remove(self, node: Node) -> None:
        self._drop(node)
        self._drop_from_owners(node, node.owners)
        for dependent in node.dependents:
            self._to_delete(dependent.uid)
        self._last_may_have_gone(node)

    def _last_may_have_gone(self, node: Node) -> None:
        """Look at owners that wait for their dependents to go."""
        for reference in node.owners:
            owner = self._nodes.get(reference.uid)
            if owner is not None and owner.is_deleting_dependents:
                self._to_delete(owner.uid)

    def _add_to_owners(self, node: Node, owners: Iterable[OwnerReference]) -> None:
        doubtful = False
        for reference in owners:
            identity = identity_of(reference, node.identity.namespace)
            kinds = self._kinds.setdefault(_group_kind(identity), {})
            kinds[_group_kind(node.identity)] = None
            owner = self._nodes.get(reference.uid)
            if owner is None:
                owner = Node(identity, virtual=True)
                self._nodes[reference.uid] = owner
                owner.add_dependent(node)
                self._to_delete(owner.uid)
                continue
            owner.add_dependent(node)
            if _is_misplaced(owner.identity, node):
                if not owner.is_virtual:
                    self._report(node, reference.uid)
                doubtful = True
            elif not _means(reference, node.identity.namespace, owner):
                doubtful = True
        if doubtful:
            self._to_delete(node.uid)

    def _drop_from_owners(self, node: Node, owners: Iterable[OwnerReference]) -> None:
        for reference in owners:
            owner = self._nodes.get(reference.uid)
            if owner is None:
                continue
            owner.drop_dependent(node)
            if owner.is_virtual and not owner.dependents:
                self._drop(owner)  # nobody speaks of it any more
                self._forget_invented(_group_kind(owner.identity))

    def _forget_invented(self, kind: GroupKind) -> None:
        """Forget a kind that a reference named and that nobody serves.

        Whoever may create objects may name as many kinds as he likes.
        """
        if kind in self._kinds and not self._is_served(kind):
            del self._kinds[kind]

    def _change_owners(self, node: Node, owners: tuple[OwnerReference, ...]) -> None:
        before = {each.uid: each for each in node.owners}
        after = {each.uid: each for each in owners}
        for uid, reference in before.items():
            kept = after.get(uid)
            unblocked = kept is None or not kept.block_owner_deletion
            if reference.block_owner_deletion and unblocked and uid in self._nodes:
                self._to_delete(uid)  # it may have waited for this one alone
        node.owners = owners
        self._add_to_owners(
            node, [each for uid, each in after.items() if uid not in before]
        )
        self._drop_from_owners(
            node, [each for uid, each in before.items() if uid not in after]
        )

    def _report(self, node: Node, uid: str) -> None:
        for reference in node.owners:
            if reference.uid == uid:
                self._misplaced(node, reference)
                return


def _identity(resource: AnyResource, obj: KubeObject) -> Identity:
    metadata = obj.metadata
    return Identity(
        resource.api_version,
        resource.kind,
        metadata.namespace,
        metadata.name,
        metadata.uid,
    )


def _group_kind(identity: Identity) -> GroupKind:
    return identity.group, identity.kind


def _begins(old: KubeObject | None, new: KubeObject, finalizer: str) -> bool:
    """Tell whether a deletion that a finalizer holds has just begun."""
    if not waits_for(new, finalizer):
        return False
    return old is None or not waits_for(old, finalizer)


def _is_misplaced(owner: Identity, dependent: Node) -> bool:
    """Tell whether an owner is of a namespace that is not the dependent's."""
    return bool(owner.namespace) and owner.namespace != dependent.identity.namespace


def _means(reference: OwnerReference, namespace: str, owner: Node) -> bool:
    """Tell whether a reference says of an owner what is known of it."""
    known = owner.identity
    if identity_of(reference, known.namespace) != known:
        return False
    # A virtual owner without a namespace may be an object of a namespace that a
    # cluster-scoped one refers to by mistake (kubernetes#98040).
    return bool(known.namespace) or not owner.is_virtual or not namespace


def _parted(
    dependents: Iterable[Node], identity: Identity
) -> tuple[list[Node], list[Node]]:
    """Part dependents into those that mean `identity` by its uid, and others."""
    meant: list[Node] = []
    otherwise: list[Node] = []
    for dependent in dependents:
        namespace = dependent.identity.namespace
        fits = all(
            identity_of(each, identity.namespace) == identity
            for each in dependent.owners
            if each.uid == identity.uid
        ) and (not identity.namespace or namespace == identity.namespace)
        (meant if fits else otherwise).append(dependent)
    return meant, otherwise


def _other_identity(dependents: Sequence[Node], known: Identity) -> Identity:
    """Return what dependents mean by a uid, the next one after `known`.

    Going round in order, so that each meaning is asked about in its turn.
    """
    meanings = sorted(
        {
            identity_of(each, dependent.identity.namespace)
            for dependent in dependents
            for each in dependent.owners
            if each.uid == known.uid
        }
    )
    return next((each for each in meanings if each > known), meanings[0])
