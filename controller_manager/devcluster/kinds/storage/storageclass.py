"""StorageClass: the provisioner of volumes, and its parameters."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.kinds.core.volumes import UNSET
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.validation.text import table

from .default_class import is_default
from .validation import validate_parameters, validate_provisioner

_RULES: Final = table(
    """
    provisioner: provisioner default empty
    parameters: parameters
    reclaimPolicy: enum Delete Retain
    volumeBindingMode: enum Immediate WaitForFirstConsumer
    """,
    validate_provisioner,
    validate_parameters,
)
_UPDATE: Final = table(
    """
    parameters: kept "updates to parameters are forbidden."
    provisioner: kept "updates to provisioner are forbidden."
    reclaimPolicy, volumeBindingMode: immutable
    """
)


class StorageClassStrategy(Strategy):
    """The provisioner and its parameters are immutable."""

    returns_deleted: ClassVar = True
    rules: ClassVar = _RULES
    update_rules: ClassVar = _UPDATE
    columns: ClassVar = (
        NAME,
        Column("Provisioner"),
        Column("ReclaimPolicy"),
        Column("VolumeBindingMode"),
        Column("AllowVolumeExpansion"),
        AGE,
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the reclaim policy and the binding mode."""
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table; the name says which class is the default."""
        default = " (default)" if is_default(obj) else ""
        expands = obj.get("allowVolumeExpansion", False)
        return [
            f"{name_of(obj)}{default}",
            obj.get("provisioner", ""),
            obj.get("reclaimPolicy", UNSET),
            obj.get("volumeBindingMode", UNSET),
            "true" if expands else "false",
            age(obj, now),
        ]


KIND: Final = kind_of("storage.k8s.io/v1", "storageclasses", StorageClassStrategy())
