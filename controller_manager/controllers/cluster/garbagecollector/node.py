"""The nodes of the graph: objects with their owners and their dependents."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from controller_manager.api.meta import OwnerReference

GroupKind = tuple[str, str]
"""A group and a kind, without a version."""

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


def identity_of(reference: OwnerReference, namespace: str) -> Identity:
    """Return the identity of the owner that a reference in `namespace` names."""
    return Identity(
        reference.api_version,
        reference.kind,
        namespace,
        reference.name,
        reference.uid,
    )


class Node:
    """An object with its owners and its dependents.

    Most objects have no dependents, so the dict for them is made when it is needed.
    """

    __slots__ = (
        "_dependents",
        "attempts",
        "identity",
        "is_being_deleted",
        "is_deleting_dependents",
        "is_virtual",
        "owners",
    )

    def __init__(
        self,
        identity: Identity,
        owners: tuple[OwnerReference, ...] = (),
        *,
        virtual: bool = False,
    ) -> None:
        self.identity = identity
        self.owners = owners
        self.is_virtual = virtual
        self.is_being_deleted = False
        self.is_deleting_dependents = False
        self.attempts = 0
        self._dependents: dict[Node, None] | None = None

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
