"""Objects as they come out of a file."""

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.fields.field_set import shared


def share_fields(obj: JSON) -> None:
    """Let the managedFields of objects with the same fields be one value in memory.

    It is so in a running cluster. They are a third of a small object.
    """
    for entry in obj.get("metadata", {}).get("managedFields") or ():
        fields = entry.get("fieldsV1")
        if isinstance(fields, dict):
            entry["fieldsV1"] = shared(fields)
