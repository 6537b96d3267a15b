"""Which claims may be made larger (plugin/pkg/admission/storage/persistentvolume)."""

from typing import Any, Final

from controller_manager.api.quantity import parse_quantity
from controller_manager.devcluster.server.statuses import forbidden
from controller_manager.devcluster.server.storage import Storage

JSON = dict[str, Any]

_CLASSES: Final = "storageclasses.storage.k8s.io"
_REFUSAL: Final = (
    "only dynamically provisioned pvc can be resized and the storageclass that "
    "provisions the pvc must support resize"
)


def check_expansion(old: JSON, new: JSON, storage: Storage) -> None:
    """Raise Refusal if a claim grows and its class does not allow that.

    A claim that is not bound cannot change its size at all; validation tells so.
    """
    if old.get("status", {}).get("phase") != "Bound" or not _grows(old, new):
        return
    name = new["spec"].get("storageClassName") or ""
    stored = storage.collection(_CLASSES).get(("", name))
    if stored is None or not stored.obj.get("allowVolumeExpansion"):
        claim = new["metadata"]["name"]
        raise forbidden("", "persistentvolumeclaims", claim, _REFUSAL)


def _grows(old: JSON, new: JSON) -> bool:
    sizes = [each["spec"]["resources"].get("requests", {}) for each in (old, new)]
    before, after = (each.get("storage", "0") for each in sizes)
    try:
        return parse_quantity(after) > parse_quantity(before)
    except ValueError:
        return False  # validation tells so
