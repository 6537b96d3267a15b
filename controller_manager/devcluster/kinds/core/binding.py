"""Binding: assigns a pod to a node; it is never stored."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.scheme.statuses import success
from controller_manager.devcluster.server.registry.rest_storage import Call, RESTStorage

from .pod.binding import bind
from .pod.strategy import KIND as POD


def bind_pod(call: Call, obj: JSON) -> JSON:
    """Assign the pod; raises Refusal."""
    name = obj.get("metadata", {}).get("name", "")
    node = obj.get("target", {}).get("name", "")
    bind(call.objects, POD, call.namespace, name, node, dry_run=call.dry_run)
    return success(201)


KIND: Final = kind_of("v1", "bindings")
REST_STORAGE: Final = RESTStorage(KIND.resource, create=bind_pod)
