"""The flags of the node IPAM controller, and the ranges that they give.

Upstream: startNodeIpamController of cmd/kube-controller-manager/app/core.go. It refuses
the same flags, each with a message of its own.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from controller_manager.options.checks import at_most_two
from controller_manager.options.config import PodRangesConfig
from controller_manager.options.controller_options import (
    ControllerOptions,
    InvalidConfiguration,
    option,
)
from controller_manager.options.flag import Flag

from .cidr_set import Network, parse_network


class NodeIPAMOptions(ControllerOptions):
    """The mask sizes of nodes' ranges, 0 for the default, and the services' ranges."""

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


_ALLOCATOR: Final = "RangeAllocator"
_DEFAULT_SIZES: Final = {4: 24, 6: 64}
_FAMILIES: Final = 2
_MOST_BITS_IPV6: Final = 16
"""The largest difference in bits between the masks of a node's and the cluster's IPv6
range.
"""


class ClusterRange(Struct, frozen=True):
    """A range of the cluster's pods, and the mask size of the parts for nodes."""

    network: Network
    mask_size: int


class Settings(Struct, frozen=True):
    """The ranges of the cluster, the preferred family first, and of its services.

    `unread` are invalid ranges of services, which upstream ignores.
    """

    cluster: tuple[ClusterRange, ...]
    services: tuple[Network, ...] = ()
    unread: tuple[str, ...] = ()


def read_settings(pods: PodRangesConfig, options: NodeIPAMOptions) -> Settings:
    """Return the settings; raises InvalidConfiguration, which names the flag."""
    if pods.allocator != _ALLOCATOR:
        msg = (
            f"--cidr-allocator-type={pods.allocator}: this build has no cloud "
            f"provider; use {_ALLOCATOR}"
        )
        raise InvalidConfiguration(msg)
    networks = _cluster_networks(pods.cluster)
    sizes = _mask_sizes(options, networks)
    cluster = tuple(ClusterRange(each, sizes[each.version]) for each in networks)
    for each in cluster:
        _check_size(each)
    services, unread = _service_networks(options.service_ranges)
    return Settings(cluster, services, unread)


def _cluster_networks(text: str) -> Sequence[Network]:
    """Return the cluster's ranges: one, or one for each family."""
    flag = f"--cluster-cidr={text}"
    if not text.strip():
        msg = "--cluster-cidr: give the range of the pods, --allocate-node-cidrs is set"
        raise InvalidConfiguration(msg)
    try:
        networks = [parse_network(each) for each in text.strip().split(",")]
    except ValueError as error:
        msg = f"{flag}: {error}; give a range such as 10.244.0.0/16"
        raise InvalidConfiguration(msg) from None
    families = {each.version for each in networks}
    if len(networks) > _FAMILIES or len(families) != len(networks):
        msg = f"{flag}: give one range, or one IPv4 and one IPv6 range"
        raise InvalidConfiguration(msg)
    return networks


def _mask_sizes(
    options: NodeIPAMOptions, networks: Sequence[Network]
) -> Mapping[int, int]:
    """Return the mask size of each family's ranges for nodes (setNodeCIDRMaskSizes)."""
    of_family = {4: options.mask_size_ipv4, 6: options.mask_size_ipv6}
    if options.mask_size and (len(networks) > 1 or any(of_family.values())):
        msg = (
            f"--node-cidr-mask-size={options.mask_size}: not with two families, nor "
            "with a size for one family; use --node-cidr-mask-size-ipv4 and "
            "--node-cidr-mask-size-ipv6 instead"
        )
        raise InvalidConfiguration(msg)
    families = {each.version for each in networks}
    for family, size in of_family.items():
        if size and family not in families:
            msg = (
                f"--node-cidr-mask-size-ipv{family}={size}: --cluster-cidr has no IPv"
                f"{family} range; remove the flag"
            )
            raise InvalidConfiguration(msg)
    return {
        family: size or options.mask_size or _DEFAULT_SIZES[family]
        for family, size in of_family.items()
    }


def _check_size(cluster: ClusterRange) -> None:
    """Refuse ranges for nodes that are larger or far smaller than the cluster's."""
    network, size = cluster.network, cluster.mask_size
    most: int = network.max_prefixlen
    if network.version == 6:  # noqa: PLR2004 - the address family
        most = min(most, network.prefixlen + _MOST_BITS_IPV6)
    if not network.prefixlen <= size <= most:
        msg = (
            f"--cluster-cidr={network}: nodes get ranges of mask size {size}; it must "
            f"be from {network.prefixlen} to {most}: change the range, or "
            f"--node-cidr-mask-size-ipv{network.version}"
        )
        raise InvalidConfiguration(msg)


def _service_networks(text: str) -> tuple[tuple[Network, ...], tuple[str, ...]]:
    """Return the services' ranges, and the invalid entries."""
    networks, unread = [], []
    for each in text.split(","):
        try:
            networks.append(parse_network(each))
        except ValueError:
            unread += [each] if each.strip() else []
    if len(networks) > len({each.version for each in networks}):
        msg = (
            f"--service-cluster-ip-range={text}: both ranges are IPv"
            f"{networks[0].version}; give one range, or one of each family"
        )
        raise InvalidConfiguration(msg)
    return tuple(networks), tuple(unread)
