"""The default class of claims (plugin/pkg/admission/storage/storageclass)."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.storage import Storage

IS_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"
"""The annotation of the class that claims without a class get."""

_IS_DEFAULT_BETA: Final = "storageclass.beta.kubernetes.io/is-default-class"
_CLASS_OF_CLAIM: Final = "volume.beta.kubernetes.io/storage-class"
_RESOURCE: Final = "storageclasses.storage.k8s.io"


def is_default(storage_class: JSON) -> bool:
    """Tell whether a class says that it is the default one."""
    annotations = storage_class["metadata"].get("annotations") or {}
    return "true" in (annotations.get(IS_DEFAULT), annotations.get(_IS_DEFAULT_BETA))


def set_default_class(claim: JSON, storage: Storage) -> None:
    """Give the default class to a new claim that names no class, not even "".

    Of several default classes the newest counts; of those the first by name.
    """
    annotations = claim.get("metadata", {}).get("annotations") or {}
    spec = claim.get("spec") or {}
    if spec.get("storageClassName") is not None or _CLASS_OF_CLAIM in annotations:
        return
    found = [
        each.obj["metadata"]
        for each in storage.collection(_RESOURCE)
        if is_default(each.obj)
    ]
    if found:
        newest = max(each["creationTimestamp"] for each in found)
        names = [each["name"] for each in found if each["creationTimestamp"] == newest]
        claim["spec"] = {**spec, "storageClassName": min(names)}
