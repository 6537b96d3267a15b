"""namespace-controller: empties terminating namespaces, then drops their finalizer."""

from controller_manager.api.core.v1 import NAMESPACES
from controller_manager.options.checks import not_negative
from controller_manager.options.controller_options import (
    ControllerOptions,
    concurrency,
    option,
)
from controller_manager.options.gates import Gate
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import allow, allow_everywhere


class NamespaceOptions(ControllerOptions):
    """The number of workers, and the period after which a namespace is synced again.

    `sync_period` is in seconds.
    """

    concurrent_syncs: int = concurrency(
        "concurrent-namespace-syncs",
        10,
        "NamespaceController.ConcurrentNamespaceSyncs",
        "namespaces",
    )
    sync_period: float = option(
        "namespace-sync-period",
        "duration",
        "5m0s",
        "The period for syncing the life cycle of namespaces.",
        "NamespaceController.NamespaceSyncPeriod",
        check=not_negative,
    )


CONTROLLER = Descriptor(
    name="namespace-controller",
    aliases=("namespace",),
    load=".controller:NamespaceReconciler",
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
