"""Binding: assigns a pod to a node; it is never stored."""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.core.pod.binding import bind
from controller_manager.devcluster.kinds.core.pod.strategy import KIND as POD
from controller_manager.devcluster.server.apimachinery.statuses import success
from controller_manager.devcluster.server.registry.call import Call
from controller_manager.devcluster.server.rest.kind import Kind
from controller_manager.devcluster.server.rest.strategy import Strategy


class BindingStrategy(Strategy):
    """Assigns the pod with the binding's name to the target of the binding."""

    def answer(self, call: Call, obj: JSON) -> JSON | None:
        """Assign the pod; raises Refusal."""
        name = obj.get("metadata", {}).get("name", "")
        node = obj.get("target", {}).get("name", "")
        bind(call.objects, POD, call.namespace, name, node, dry_run=call.dry_run)
        return success(201)


KIND: Final = Kind(
    "",
    "v1",
    "Binding",
    "bindings",
    model="V1Binding",
    verbs=("create",),
    strategy=BindingStrategy(),
)
