"""ComponentStatus: old clients list it; the list is always empty."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.apiserver.strategy import (
    AGE,
    NAME,
    Cells,
    Column,
    Deletion,
    Strategy,
    age,
    fields_by_path,
)
from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.registry.columns import name_of
from controller_manager.devcluster.scheme.names import validate_label
from controller_manager.devcluster.scheme.statuses import Cause, conflict
from controller_manager.devcluster.storage import Storage

# ComponentStatus: old clients list it; the list is always empty.


class ComponentStatusStrategy(Strategy):
    """Has the columns of upstream, and no rows."""

    columns: ClassVar = (NAME, Column("Status"), Column("Message"), Column("Error"))


COMPONENT_STATUSES: Final = kind_of(
    "v1",
    "componentstatuses",
    ComponentStatusStrategy(),
    deprecation="v1 ComponentStatus is deprecated in v1.19+",
)


# Namespace: a scope of names, which is deleted with all its objects.


class NamespaceStrategy(Strategy):
    """A namespace is removed when its spec has no finalizers left."""

    returns_deleted: ClassVar = True
    records_deletion: ClassVar = True
    selectable_fields: ClassVar = fields_by_path("status.phase")
    columns: ClassVar = (NAME, Column("Status"), AGE)

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the label with the name, and the phase."""
        metadata = obj["metadata"]
        if name := metadata.get("name"):
            labels = metadata.setdefault("labels", {})
            labels["kubernetes.io/metadata.name"] = name
        obj.setdefault("status", {}).setdefault("phase", "Active")

    def prepare_for_create(self, obj: JSON, storage: Storage) -> None:
        """Add the finalizer that holds deletion until the namespace is empty."""
        del storage
        obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])

    def prepare_for_update(self, old: JSON, new: JSON) -> None:
        """Keep the finalizers of the spec; only ``finalize`` changes them."""
        new["spec"] = old["spec"]

    def validate_name(self, name: str) -> list[Cause]:
        """Check the name of a new namespace."""
        return validate_label(name, "metadata.name")

    def mark_deleted(self, obj: JSON, options: Deletion, now: datetime) -> JSON:
        """Return a terminating namespace; raises Refusal."""
        del options
        metadata = dict(obj["metadata"])
        name = metadata["name"]
        if "deletionTimestamp" in metadata:
            why = (
                "The system is ensuring all content is removed from this namespace.  "
                "Upon completion, this namespace will automatically be purged by the "
                "system."
            )
            raise conflict(KIND.group, KIND.plural, name, why)
        metadata["deletionTimestamp"] = format_time(now)
        status = {**obj.get("status", {}), "phase": "Terminating"}
        return {**obj, "metadata": metadata, "status": status}

    def can_be_removed(self, obj: JSON) -> bool:
        """Tell whether the metadata and the spec have no finalizers left."""
        return super().can_be_removed(obj) and not obj.get("spec", {}).get("finalizers")

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        phase = obj.get("status", {}).get("phase", "")
        return [name_of(obj), phase, age(obj, now)]


def _replace_finalizers(old: JSON, new: JSON) -> JSON:
    return {**old, "spec": new.get("spec", {})}


KIND: Final = kind_of(
    "v1", "namespaces", NamespaceStrategy(), replace={"finalize": _replace_finalizers}
)
