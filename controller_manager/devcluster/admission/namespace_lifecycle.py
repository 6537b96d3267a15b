"""The admission plugin NamespaceLifecycle."""

from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.apimachinery.statuses import (
    forbidden,
    not_found,
)
from controller_manager.devcluster.server.rest.admission import Operation, Plugin, Write
from controller_manager.devcluster.server.storage.storage import Storage

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
