"""Validation of object metadata (apimachinery validation).

Every function returns the causes that it finds, in upstream's order.
"""

from collections.abc import Callable
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.apimachinery.names import (
    validate_annotations,
    validate_labels,
)
from controller_manager.devcluster.server.apimachinery.statuses import (
    Cause,
    forbidden_field,
    invalid,
    required,
    shown,
)

_IMMUTABLE: Final = "field is immutable"


def validate_metadata(
    metadata: JSON, validate_name: Callable[[str], list[Cause]]
) -> list[Cause]:
    """Check the metadata of a new object."""
    causes: list[Cause] = []
    name, generated = metadata.get("name", ""), metadata.get("generateName", "")
    if not name and not generated:
        causes.append(required("metadata.name", "name or generateName is required"))
    elif name:
        causes += validate_name(name)
    causes += validate_labels(metadata.get("labels", {}), "metadata.labels")
    causes += validate_annotations(
        metadata.get("annotations", {}), "metadata.annotations"
    )
    return causes + _owners(metadata.get("ownerReferences", []))


def _owners(references: list[JSON]) -> list[Cause]:
    field = "metadata.ownerReferences"
    causes = []
    controllers: list[str] = []
    for reference in references:
        for name in ("apiVersion", "kind", "name", "uid"):
            if not reference.get(name):
                where = f"{field}.{name}"
                value = shown(reference.get(name, ""))
                causes.append(invalid(where, value, "must not be empty"))
        if reference.get("controller"):
            controllers.append(f"{reference.get('kind')}/{reference.get('name')}")
    if len(controllers) > 1:
        detail = (
            'Only one reference can have Controller set to true. Found "true" in '
            f"references for {controllers[0]} and {controllers[1]}"
        )
        causes.append(invalid(field, shown(references), detail))
    return causes


def validate_metadata_update(old: JSON, new: JSON) -> list[Cause]:
    """Check the changes that an update makes to metadata."""
    causes = []
    if (old.get("finalizers") or new.get("finalizers")) and old.get(
        "deletionTimestamp"
    ):
        added = [
            each
            for each in new.get("finalizers", [])
            if each not in old.get("finalizers", [])
        ]
        if added:
            listed = ", ".join(f'"{each}"' for each in added)
            detail = (
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{listed}}}"
            )
            causes.append(forbidden_field("metadata.finalizers", detail))
    for name in ("name", "namespace", "uid"):
        if new.get(name, "") != old.get(name, ""):
            where = f"metadata.{name}"
            causes.append(invalid(where, shown(new.get(name, "")), _IMMUTABLE))
    causes += validate_labels(new.get("labels", {}), "metadata.labels")
    causes += validate_annotations(new.get("annotations", {}), "metadata.annotations")
    return causes + _owners(new.get("ownerReferences", []))
