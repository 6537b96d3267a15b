"""Namespaces, and component statuses."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.apiserver.strategy import (
    Deletion,
    Strategy,
    fields_by_path,
)
from controller_manager.devcluster.registry.kinds import kind_of
from controller_manager.devcluster.scheme.names import validate_label
from controller_manager.devcluster.scheme.statuses import conflict
from controller_manager.devcluster.storage import Storage

# ComponentStatus: old clients list it; the list is always empty

COMPONENT_STATUSES: Final = kind_of(
    "v1",
    "componentstatuses",
    printer="""
        Name
        Status: join .conditions[].status
        Message: join .conditions[].message
        Error: join .conditions[].error
        """,
    deprecation="v1 ComponentStatus is deprecated in v1.19+",
)

# Namespace: a scope of names, which is deleted with all its objects


class _NamespaceStrategy(Strategy):
    """A namespace is removed when its spec has no finalizers left."""

    records_deletion: ClassVar = True

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


def _replace_finalizers(old: JSON, new: JSON) -> JSON:
    return {**old, "spec": new.get("spec", {})}


KIND: Final = kind_of(
    "v1",
    "namespaces",
    _NamespaceStrategy(),
    check_name=validate_label,
    kept=("spec",),  # only ``finalize`` changes the finalizers
    returns_deleted=True,
    selectable_fields=fields_by_path("status.phase"),
    printer="Name; Status: .status.phase; Age",
    replace={"finalize": _replace_finalizers},
)
