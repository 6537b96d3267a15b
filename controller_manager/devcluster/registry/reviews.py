"""Reviews: requests that are answered without being stored."""

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.objects import Call


def reviewed(call: Call, obj: JSON, status: JSON) -> JSON:
    """Return a review with its status."""
    return {
        "kind": call.kind.kind,
        "apiVersion": call.kind.api_version,
        "metadata": obj.get("metadata", {}),
        "spec": obj.get("spec", {}),
        "status": status,
    }
