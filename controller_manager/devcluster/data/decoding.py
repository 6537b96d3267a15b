"""Prepares objects that were decoded from a file."""

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.fields.field_set import shared


def share_fields(obj: JSON) -> None:
    """Let objects with equal managedFields share one value in memory.

    A running cluster does the same. They are a third of a small object.
    """
    for entry in obj.get("metadata", {}).get("managedFields") or ():
        fields = entry.get("fieldsV1")
        if isinstance(fields, dict):
            entry["fieldsV1"] = shared(fields)
