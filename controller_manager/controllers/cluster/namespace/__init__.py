"""namespace-controller: empties a namespace that is being deleted, then lets it go.

``deletion`` does the work on one namespace, ``conditions`` says in its status
what is going on (pure), ``reconciler`` has the sync.
"""

from controller_manager.api.core.v1 import NAMESPACES
from controller_manager.controllers.cluster.namespace.options import NamespaceOptions
from controller_manager.options.gates import Gate
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import allow, allow_everywhere

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
    # It asks for the deletion of every resource there is, one by one.
    qps_factor=20,
    burst_factor=100,
)
