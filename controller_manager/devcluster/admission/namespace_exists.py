"""The admission plugin NamespaceExists.

With NamespaceLifecycle, which is on by default, it has no effect.
"""

from typing import ClassVar, Final

from controller_manager.devcluster.server.apimachinery.statuses import not_found
from controller_manager.devcluster.server.rest.admission import Operation, Plugin, Write
from controller_manager.devcluster.server.storage.storage import Storage

_NAMESPACES: Final = "namespaces"


class NamespaceExists(Plugin):
    """Refuses writes to a namespace that does not exist."""

    name: ClassVar = "NamespaceExists"
    validates: ClassVar = frozenset(
        (Operation.CREATE, Operation.UPDATE, Operation.DELETE)
    )

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def validate(self, write: Write) -> None:
        """Raise Refusal without the namespace."""
        if not write.kind.namespaced:
            return
        key = ("", write.namespace)
        if self._storage.collection(_NAMESPACES).get(key) is None:
            raise not_found("", _NAMESPACES, write.namespace)
