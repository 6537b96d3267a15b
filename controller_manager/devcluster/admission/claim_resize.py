"""The admission plugin PersistentVolumeClaimResize."""

from typing import Any, ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import parse_quantity
from controller_manager.devcluster.server.rest.admission import Operation, Plugin, Write
from controller_manager.devcluster.server.storage.storage import Storage

from .writes import CLAIMS, object_of, refused

_CLASSES: Final = "storageclasses.storage.k8s.io"
_UNBOUND: Final = "Only bound persistent volume claims can be expanded"
_NOT_EXPANDABLE: Final = (
    "only dynamically provisioned pvc can be resized and the storageclass that "
    "provisions the pvc must support resize"
)


class PersistentVolumeClaimResize(Plugin):
    """Lets a claim grow only if its class allows that."""

    name: ClassVar = "PersistentVolumeClaimResize"
    targets: ClassVar = CLAIMS
    covers_own_writes: ClassVar = True
    validates: ClassVar = frozenset((Operation.UPDATE,))

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def validate(self, write: Write) -> None:
        """Raise Refusal if a claim grows and its class forbids this."""
        new = object_of(write)
        if write.old is None or _size(new) <= _size(write.old):
            return
        if write.old.get("status", {}).get("phase") != "Bound":
            raise refused(write, _UNBOUND)
        name = new["spec"].get("storageClassName") or ""
        stored = self._storage.collection(_CLASSES).get(("", name))
        if stored is None or not stored.obj.get("allowVolumeExpansion"):
            raise refused(write, _NOT_EXPANDABLE)


def _size(claim: JSON) -> Any:
    resources = claim["spec"].get("resources") or {}
    return parse_quantity((resources.get("requests") or {}).get("storage", "0"))
