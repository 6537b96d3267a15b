"""The classes of volumes, and the default class of claims.

Upstream: pkg/apis/storage/validation, plugin/pkg/admission/storage/storageclass.
"""

from collections.abc import Mapping
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import Strategy
from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.registry.columns import columns, name_of
from controller_manager.devcluster.scheme.names import validate_qualified_name
from controller_manager.devcluster.scheme.statuses import Cause, required, too_long
from controller_manager.devcluster.storage import Storage
from controller_manager.devcluster.validation.text import table

_MOST_PARAMETERS: Final = 512
_LONGEST_PARAMETERS: Final = 256 * 1024


def _provisioner(name: str, field: str) -> list[Cause]:
    """Check the name of a provisioner, or of the driver of attributes."""
    if not name:
        return [required(field)]
    return validate_qualified_name(name.lower(), field)


def _parameters(parameters: Mapping[str, str], field: str) -> list[Cause]:
    """Check the number and the size of parameters."""
    if len(parameters) > _MOST_PARAMETERS:
        return [too_long(field, _MOST_PARAMETERS)]
    size = sum(len(key) + len(value) for key, value in parameters.items())
    if size > _LONGEST_PARAMETERS:
        return [too_long(field, _LONGEST_PARAMETERS)]
    return []


# Storage classes

IS_DEFAULT: Final = "storageclass.kubernetes.io/is-default-class"
"""The annotation of the class that claims without a class get."""

_IS_DEFAULT_BETA: Final = "storageclass.beta.kubernetes.io/is-default-class"
_CLASS_OF_CLAIM: Final = "volume.beta.kubernetes.io/storage-class"


def is_default(storage_class: JSON) -> bool:
    """Tell whether a class says that it is the default one."""
    annotations = storage_class["metadata"].get("annotations") or {}
    return "true" in (annotations.get(IS_DEFAULT), annotations.get(_IS_DEFAULT_BETA))


def _shown_name(storage_class: JSON) -> str:
    suffix = " (default)" if is_default(storage_class) else ""
    return f"{name_of(storage_class)}{suffix}"


def _expands(storage_class: JSON) -> str:
    return "true" if storage_class.get("allowVolumeExpansion") else "false"


STORAGE_CLASSES: Final = kind_of(
    "storage.k8s.io/v1",
    "storageclasses",
    Strategy(
        returns_deleted=True,
        defaults={"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
        rules=table(
            """
            provisioner: provisioner default empty
            parameters: parameters
            reclaimPolicy: enum Delete Retain
            volumeBindingMode: enum Immediate WaitForFirstConsumer
            """,
            _provisioner,
            _parameters,
        ),
        update_rules=table(
            """
            parameters: kept "updates to parameters are forbidden."
            provisioner: kept "updates to provisioner are forbidden."
            reclaimPolicy, volumeBindingMode: immutable
            """
        ),
        printer=columns(
            """
            Name: shown_name
            Provisioner: .provisioner
            ReclaimPolicy: .reclaimPolicy or <unset>
            VolumeBindingMode: .volumeBindingMode or <unset>
            AllowVolumeExpansion: expands
            Age
            """,
            _shown_name,
            _expands,
        ),
    ),
)


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
        for each in storage.collection(STORAGE_CLASSES.resource)
        if is_default(each.obj)
    ]
    if found:
        newest = max(each["creationTimestamp"] for each in found)
        names = [each["name"] for each in found if each["creationTimestamp"] == newest]
        claim["spec"] = {**spec, "storageClassName": min(names)}


# Volume attributes classes

ATTRIBUTES_CLASSES: Final = kind_of(
    "storage.k8s.io/v1",
    "volumeattributesclasses",
    Strategy(
        returns_deleted=True,
        rules=table(
            """
            driverName: provisioner default empty
            parameters: parameters
            parameters: required "must contain at least one key/value pair"
            """,
            _provisioner,
            _parameters,
        ),
        update_rules=table(
            """
            driverName: kept "updates to driverName are forbidden."
            parameters: kept "updates to parameters are forbidden."
            """
        ),
        printer=columns("Name; DriverName: .driverName; Age"),
    ),
)
