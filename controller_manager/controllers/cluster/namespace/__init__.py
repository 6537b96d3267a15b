"""namespace-controller: empties terminating namespaces, then drops their finalizer."""

from controller_manager.api.core.v1 import NAMESPACES
from controller_manager.options.gates import Gate
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import allow, allow_everywhere

from .options import NamespaceOptions

CONTROLLER = Descriptor(
    name="namespace-controller",
    aliases=("namespace",),
    load=".reconciler:NamespaceReconciler",
    requires=(NAMESPACES,),
    options=NamespaceOptions,
    gates=(Gate("OrderedNamespaceDeletion", locked=True),),
    permissions=(
        allow(NAMESPACES, "delete", "get", "list", "watch"),
        allow(NAMESPACES, "update", subresource="finalize"),
        allow(NAMESPACES, "update", subresource="status"),
        allow_everywhere("delete", "deletecollection", "get", "list", "watch"),
    ),
    # It deletes the objects of every resource, one resource after the other.
    qps_factor=20,
    burst_factor=100,
)
