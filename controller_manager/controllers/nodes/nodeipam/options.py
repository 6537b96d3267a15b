"""The flags of the node IPAM controller."""

from controller_manager.options.checks import at_most_two
from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import Flag


class NodeIPAMOptions(ControllerOptions):
    """The sizes of the nodes' ranges, 0 for the default, and the services' ranges."""

    mask_size: int = option(
        Flag(
            "node-cidr-mask-size",
            "int32",
            "0",
            "Mask size of a node's range in a cluster with one address family. The "
            "default is 24 for IPv4 and 64 for IPv6.",
            "NodeIPAMController.NodeCIDRMaskSize",
        )
    )
    mask_size_ipv4: int = option(
        Flag(
            "node-cidr-mask-size-ipv4",
            "int32",
            "0",
            "Mask size of a node's IPv4 range. The default is 24.",
            "NodeIPAMController.NodeCIDRMaskSizeIPv4",
        )
    )
    mask_size_ipv6: int = option(
        Flag(
            "node-cidr-mask-size-ipv6",
            "int32",
            "0",
            "Mask size of a node's IPv6 range. The default is 64.",
            "NodeIPAMController.NodeCIDRMaskSizeIPv6",
        )
    )
    service_ranges: str = option(
        Flag(
            "service-cluster-ip-range",
            "string",
            None,
            "The range of the services' addresses, or one for each family with a comma "
            "between them. Nodes get no range that overlaps with it.",
            "NodeIPAMController.ServiceCIDR",
            check=at_most_two,
        )
    )
