"""The subresource ``binding``: assigns a pod to a node."""

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.scheme.statuses import conflict, success
from controller_manager.devcluster.server.registry.objects import Objects
from controller_manager.devcluster.server.registry.rest_storage import Call
from controller_manager.devcluster.server.rest.kind import Kind

from .topology import labelled_by_node


def binding(call: Call, body: JSON) -> JSON:
    """Assign a pod to the target of a Binding; raises Refusal."""
    node = (body.get("target") or {}).get("name", "")
    dry_run = call.dry_run
    bind(call.objects, call.kind, call.namespace, call.name, node, dry_run=dry_run)
    return success(201)


def bind(
    objects: Objects,
    kind: Kind,
    namespace: str,
    name: str,
    node: str,
    *,
    dry_run: bool = False,
) -> None:
    """Assign a pod of the kind `kind` to a node; raises Refusal."""
    stored = objects.find(kind, namespace, name)
    assigned = stored.obj["spec"].get("nodeName")
    if assigned:
        why = f'pod {name} is already assigned to node "{assigned}"'
        raise conflict("", "pods/binding", name, why)
    if stored.obj["metadata"].get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
        raise conflict("", "pods/binding", name, why)
    condition = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": format_time(objects.clock.now()),
    }
    status = stored.obj.get("status", {})
    others = [
        each for each in status.get("conditions", []) if each["type"] != "PodScheduled"
    ]
    new = {
        **stored.obj,
        "metadata": labelled_by_node(stored.obj["metadata"], node, objects.storage),
        "spec": {**stored.obj["spec"], "nodeName": node},
        "status": {**status, "conditions": [*others, condition]},
    }
    objects.put(kind, (namespace, name), new, dry_run=dry_run)
