"""The claims whose volumes a pod mounts."""

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.server.storage.storage import Key

_BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


def claims_of(pod: JSON) -> list[Key]:
    """Return the claims of a pod, those of its ephemeral volumes included."""
    namespace = pod["metadata"]["namespace"]
    names = (claim_name(pod, each) for each in pod["spec"].get("volumes", ()))
    return [(namespace, name) for name in names if name]


def claim_name(pod: JSON, volume: JSON) -> str:
    """Return the claim of a pod's volume, empty for a volume of another kind."""
    if "ephemeral" in volume:
        return f"{pod['metadata']['name']}-{volume['name']}"
    return str((volume.get("persistentVolumeClaim") or {}).get("claimName", ""))


def is_made_for(claim: JSON, pod: JSON) -> bool:
    """Tell whether the claim of an ephemeral volume was made for this pod."""
    owners = claim["metadata"].get("ownerReferences") or ()
    uid = pod["metadata"]["uid"]
    return any(each.get("controller") and each["uid"] == uid for each in owners)


def is_bound(claim: JSON) -> bool:
    """Tell whether a claim and its volume are bound to each other."""
    annotations = claim["metadata"].get("annotations") or {}
    return bool(claim["spec"].get("volumeName")) and _BIND_COMPLETED in annotations
