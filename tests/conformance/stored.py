"""Changes of stored objects, behind the back of the API server.

A recording may have an object as an older API server has left it. The API server
refuses such a write if the kind allows no change. So the object is deleted and
made anew while the manager is stopped. Only its uid and its age differ then, and
checkpoints do not show those.
"""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.patches import merge_patch
from tests.conformance.access import Access

_OF_THE_SERVER: Final = (
    "creationTimestamp",
    "managedFields",
    "resourceVersion",
    "uid",
)


async def change_stored(access: Access, step: JSON) -> None:
    """Apply the merge patch `merge` of a step to an object that may allow no change."""
    kind = step["kind"]
    name = await access.full_name(kind, step["name"])
    path = access.path(kind, name, namespace=step.get("namespace", ""))
    obj = merge_patch(await access.call("GET", path), step["merge"])
    for each in _OF_THE_SERVER:
        obj["metadata"].pop(each, None)
    await access.call("DELETE", path, {"propagationPolicy": "Background"})
    collection = access.path(kind, namespace=step.get("namespace", ""))
    await access.call("POST", collection, obj)
