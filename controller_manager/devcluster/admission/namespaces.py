"""The admission plugins about namespaces and owners."""

from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.admission import Operation, Plugin, Write
from controller_manager.devcluster.apiserver.kind import Kind
from controller_manager.devcluster.apiserver.security import Attributes, Authorizer
from controller_manager.devcluster.scheme.statuses import forbidden, not_found
from controller_manager.devcluster.storage import Storage

from .writes import object_of, refused

# The admission plugin NamespaceLifecycle.

_NAMESPACES: Final = "namespaces"
_IMMORTAL: Final = frozenset(("default", "kube-system", "kube-public"))
_REVIEWS: Final = ("authorization.k8s.io", "localsubjectaccessreviews")
"""Access reviews must not disclose the names of existing namespaces."""


class NamespaceLifecycle(Plugin):
    """Protects the system namespaces, and refuses objects in terminating namespaces.

    It refuses new objects in a namespace that is missing or being deleted.
    """

    name: ClassVar = "NamespaceLifecycle"
    covers_own_writes: ClassVar = True
    mutates: ClassVar = frozenset(
        (Operation.CREATE, Operation.UPDATE, Operation.DELETE)
    )

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def mutate(self, write: Write) -> None:
        """Raise Refusal if the namespace does not allow the write."""
        kind = write.kind
        if (kind.group, kind.plural) == ("", _NAMESPACES):
            if write.operation is Operation.DELETE and write.name in _IMMORTAL:
                why = "this namespace may not be deleted"
                raise forbidden("", _NAMESPACES, write.name, why)
            return
        if not kind.namespaced or write.operation is Operation.DELETE:
            return
        if (kind.group, kind.plural) == _REVIEWS:
            return
        stored = self._storage.collection(_NAMESPACES).get(("", write.namespace))
        if stored is None:
            raise not_found("", _NAMESPACES, write.namespace)
        if write.operation is Operation.CREATE:
            _check_alive(write, stored.obj)


def _check_alive(write: Write, namespace: JSON) -> None:
    if namespace.get("status", {}).get("phase") != "Terminating":
        return
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {write.namespace} is being terminated",
        "field": "metadata.namespace",
    }
    why = (
        f"unable to create new content in namespace {write.namespace} because it is "
        "being terminated"
    )
    kind, name = write.kind, write.shown_name
    raise forbidden(kind.group, kind.plural, name, why, [cause])


# The admission plugin OwnerReferencesPermissionEnforcement.

_REASON: Final = ": , <nil>"
"""Upstream's text for an authorizer without a reason and without an error."""

_EXEMPT: Final = frozenset(
    (
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
        ("authentication.k8s.io", "tokenreviews"),
    )
)


class OwnerReferencesPermissionEnforcement(Plugin):
    """Refuses changed owners by a user who may not delete the object.

    For ``blockOwnerDeletion``, the user must also be able to set its finalizers.
    """

    name: ClassVar = "OwnerReferencesPermissionEnforcement"
    validates: ClassVar = frozenset((Operation.CREATE, Operation.UPDATE))

    def __init__(
        self, authorizer: Authorizer, kinds: Callable[[], Iterable[Kind]]
    ) -> None:
        self._authorizer = authorizer
        self._kinds = kinds

    def validate(self, write: Write) -> None:
        """Raise Refusal unless the user may set the owners."""
        kind, obj = write.kind, object_of(write)
        new, old = _owners(obj), _owners(write.old or {})
        if new == old or (kind.group, kind.plural) in _EXEMPT:
            return
        if write.operation is not Operation.CREATE:
            self._check_deletion(write)
        for owner in _newly_blocking(new, old):
            self._check_owner(write, owner)

    def _check_deletion(self, write: Write) -> None:
        kind = write.kind
        attributes = Attributes(
            "delete",
            group=kind.group,
            resource=kind.plural,
            subresource=write.subresource,
            namespace=write.namespace,
            name=write.name,
        )
        if not self._authorizer.allows(write.user, attributes):
            why = "cannot set an ownerRef on a resource you can't delete"
            raise refused(write, why + _REASON)

    def _check_owner(self, write: Write, owner: JSON) -> None:
        """Check that the user may set the finalizers of an owner."""
        version, name = owner.get("apiVersion", ""), owner.get("kind", "")
        found = [
            each
            for each in self._kinds()
            if (each.api_version, each.kind) == (version, name)
        ]
        if not found:
            why = (
                "cannot set blockOwnerDeletion in this case because cannot find "
                f"RESTMapping for APIVersion {version} Kind {name}: no matches for "
                "kind "
                f'"{name}" in version "{version}"'
            )
            raise refused(write, why)
        for kind in found:
            attributes = Attributes(
                "update",
                group=kind.group,
                resource=kind.plural,
                subresource="finalizers",
                namespace=write.namespace if kind.namespaced else "",
                name=owner.get("name", ""),
            )
            if not self._authorizer.allows(write.user, attributes):
                why = (
                    "cannot set blockOwnerDeletion if an ownerReference refers to a "
                    "resource you can't set finalizers on"
                )
                raise refused(write, why + _REASON)


def _owners(obj: JSON) -> list[JSON]:
    found: list[JSON] = (obj.get("metadata") or {}).get("ownerReferences") or []
    return found


def _newly_blocking(new: list[JSON], old: list[JSON]) -> Iterator[JSON]:
    """Yield the owners that newly have ``blockOwnerDeletion``."""
    before = {each.get("uid") for each in old if each.get("blockOwnerDeletion")}
    for each in new:
        if each.get("blockOwnerDeletion") and each.get("uid") not in before:
            yield each
