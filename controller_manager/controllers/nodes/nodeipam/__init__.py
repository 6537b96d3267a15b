"""node-ipam-controller: gives every node a range of addresses for its pods."""

from controller_manager.api.core.v1 import NODES
from controller_manager.control.node_controller import PERMISSIONS, SERVICE_ACCOUNT
from controller_manager.informers.reads import Reads
from controller_manager.options.checks import at_most_two
from controller_manager.options.config import Config
from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.runtime.descriptor import Descriptor


class NodeIPAMOptions(ControllerOptions):
    """The mask sizes of nodes' ranges, 0 for the default, and the services' ranges."""

    mask_size: int = option(
        "node-cidr-mask-size",
        "int32",
        "0",
        "Mask size of a node's range in a cluster with one address family. The "
        "default is 24 for IPv4 and 64 for IPv6.",
        "NodeIPAMController.NodeCIDRMaskSize",
    )
    mask_size_ipv4: int = option(
        "node-cidr-mask-size-ipv4",
        "int32",
        "0",
        "Mask size of a node's IPv4 range. The default is 24.",
        "NodeIPAMController.NodeCIDRMaskSizeIPv4",
    )
    mask_size_ipv6: int = option(
        "node-cidr-mask-size-ipv6",
        "int32",
        "0",
        "Mask size of a node's IPv6 range. The default is 64.",
        "NodeIPAMController.NodeCIDRMaskSizeIPv6",
    )
    service_ranges: str = option(
        "service-cluster-ip-range",
        "string",
        None,
        "The range of the services' addresses, or one for each family with a comma "
        "between them. Nodes get no range that overlaps with it.",
        "NodeIPAMController.ServiceCIDR",
        check=at_most_two,
    )


def _lacks(config: Config, _: str) -> str:
    return "" if config.pod_ranges.allocate else "--allocate-node-cidrs"


CONTROLLER = Descriptor(
    name="node-ipam-controller",
    aliases=("nodeipam",),
    load=".controller:NodeIPAMReconciler",
    requires=(NODES,),
    reads=(Reads(NODES, "spec.podCIDR", "spec.podCIDRs"),),
    options=NodeIPAMOptions,
    lacks=_lacks,
    permissions=PERMISSIONS,
    metrics=(
        "node_ipam_controller_cidrset_allocation_tries_per_request",
        "node_ipam_controller_cidrset_cidrs_allocations_total",
        "node_ipam_controller_cidrset_cidrs_releases_total",
        "node_ipam_controller_cidrset_usage_cidrs",
        "node_ipam_controller_cirdset_max_cidrs",
        "running_managed_controllers",
    ),
    component="cidrAllocator",
    service_account=SERVICE_ACCOUNT,
)
