"""node-ipam-controller: gives every node a range of addresses for its pods."""

from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.informers.reads import Reads
from controller_manager.options.config import Config
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

from .options import NodeIPAMOptions


def _lacks(config: Config, _: str) -> str:
    return "" if config.pod_ranges.allocate else "--allocate-node-cidrs"


CONTROLLER = Descriptor(
    name="node-ipam-controller",
    aliases=("nodeipam",),
    load=".reconciler:NodeIPAMReconciler",
    requires=(NODES,),
    reads=(Reads(NODES, "spec.podCIDR", "spec.podCIDRs"),),
    options=NodeIPAMOptions,
    lacks=_lacks,
    # The role that it shares with the node lifecycle controller.
    permissions=(
        allow(NODES, "delete", "get", "list", "patch", "update", "watch"),
        allow(NODES, "patch", "update", subresource="status"),
        allow(PODS, "patch", "update", subresource="status"),
        allow(PODS, "delete", "get", "list", "watch"),
        *RECORD_EVENTS,
    ),
    metrics=(
        "node_ipam_controller_cidrset_allocation_tries_per_request",
        "node_ipam_controller_cidrset_cidrs_allocations_total",
        "node_ipam_controller_cidrset_cidrs_releases_total",
        "node_ipam_controller_cidrset_usage_cidrs",
        "node_ipam_controller_cirdset_max_cidrs",
        "running_managed_controllers",
    ),
    component="cidrAllocator",
    service_account="node-controller",
)
