"""The ranges of the cluster, and those of its nodes (pure functions and sets).

Upstream: startNodeIpamController of app/core.go, ipam/cidrset/cidr_set.go and
ipam/range_allocator.go.
"""

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from controller_manager.options.config import PodRangesConfig
from controller_manager.options.controller_options import InvalidConfiguration

from . import NodeIPAMOptions

Network = IPv4Network | IPv6Network

_LEADING_ZEROS: Final = re.compile(r"(?<![0-9a-fA-F:])0+(?=[0-9])")
_MASK_SIZE: Final = re.compile(r"/[0-9]{1,3}$")

_ALLOCATOR: Final = "RangeAllocator"
_DEFAULT_SIZES: Final = {4: 24, 6: 64}
_FAMILIES: Final = 2
_MOST_BITS_IPV6: Final = 16
"""The most bits between the masks of a node's and the cluster's IPv6 range."""

_PREFIX: Final = "node_ipam_controller"
_LABELS: Final = ("clusterCIDR",)
_TRIES: Final = (1, 5, 25, 125, 625)

_ONE_MORE: Final = bytes((*range(1, 256), 255))
_ONE_LESS: Final = bytes((0, *range(254), 255))
"""The next number of holders for each number. A range with 255 holders stays taken."""


def parse_network(text: str) -> Network:
    """Parse a range (ParseCIDRSloppy); bits beyond the mask do not count.

    Numbers may have leading zeros. Raises ValueError without address or mask size.
    """
    if _MASK_SIZE.search(text) is None:
        msg = f"{text!r} has no mask size"
        raise ValueError(msg)
    return ip_network(_LEADING_ZEROS.sub("", text), strict=False)


def overlap(one: Network, other: Network) -> bool:
    """Tell whether two ranges have an address in common."""
    return one.version == other.version and one.overlaps(other)


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


class CIDRSet:
    """Equal parts of a range of the cluster, and the number of holders of each part.

    A part has several holders if a user gave it to two nodes, or the services have it:
    it is free after all have released it. Upstream frees it with the first of them.
    """

    def __init__(self, network: Network, mask_size: int) -> None:
        self.network = network
        self.size = 1 << (mask_size - network.prefixlen)
        """The number of parts."""
        self.taken = 0
        """The number of parts that have a holder."""
        self._mask_size = mask_size
        self._shift = network.max_prefixlen - mask_size
        self._holders = bytearray()
        """The number of holders of each part, up to the last one that ever had one."""
        self._next = 0

    @property
    def is_exhausted(self) -> bool:
        """True if all parts have a holder."""
        return self.taken == self.size

    def allocate(self) -> tuple[Network, int]:
        """Take the next free range; return it, and the number of ranges tried before.

        A freed range is used again only after all ranges behind it. Raises LookupError
        if no range is free.
        """
        if self.is_exhausted:
            msg = f"{self.network} has no free range left"
            raise LookupError(msg)
        found = self._holders.find(0, self._next)
        if found < 0:
            known = len(self._holders)
            found = known if known < self.size else self._holders.find(0)
        tries = (found - self._next) % self.size
        self._next = (found + 1) % self.size
        network = self._at(found)
        self.occupy(network)
        return network, tries

    def occupy(self, network: Network) -> int:
        """Add a holder to the overlapping parts; return how many of them were free."""
        parts = self._overlapping(network)
        missing = parts.stop - len(self._holders)
        if missing > 0:
            self._holders.extend(bytes(missing))
        held = self._holders[parts]
        self._holders[parts] = held.translate(_ONE_MORE)
        free = held.count(0)
        self.taken += free
        return free

    def release(self, network: Network) -> int:
        """Remove a holder from the overlapping parts; return how many are free now."""
        parts = self._overlapping(network)
        held = self._holders[parts]
        self._holders[parts] = held.translate(_ONE_LESS)
        freed = held.count(1)
        self.taken -= freed
        return freed

    def parts_of(self, network: Network) -> int:
        """Return the number of parts that overlap with a range."""
        parts = self._overlapping(network)
        return int(parts.stop - parts.start)

    def _overlapping(self, network: Network) -> slice:
        if not overlap(self.network, network):
            return slice(0, 0)
        return slice(
            self._index(max(int(network[0]), int(self.network[0]))),
            self._index(min(int(network[-1]), int(self.network[-1]))) + 1,
        )

    def _index(self, address: int) -> int:
        return (address - int(self.network[0])) >> self._shift

    def _at(self, index: int) -> Network:
        made: type[IPv4Address | IPv6Address] = type(self.network[0])
        first = made(int(self.network[0]) + (index << self._shift))
        return ip_network((first, self._mask_size))


class NodeIPAMMetrics:
    """The ``node_ipam_controller_*`` metrics, and whether the controller runs."""

    def __init__(self, registry: CollectorRegistry) -> None:

        def counter(name: str, text: str) -> Counter:
            return Counter(f"{_PREFIX}_{name}", text, _LABELS, registry=registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"{_PREFIX}_{name}", text, _LABELS, registry=registry)

        self._allocations = counter(
            "cidrset_cidrs_allocations_total",
            "Counter measuring total number of CIDR allocations.",
        )
        self._releases = counter(
            "cidrset_cidrs_releases_total",
            "Counter measuring total number of CIDR releases.",
        )
        # Upstream's name has the letters in this order.
        self._most = gauge(
            "cirdset_max_cidrs", "Maximum number of CIDRs that can be allocated."
        )
        self._usage = gauge(
            "cidrset_usage_cidrs", "Gauge measuring percentage of allocated CIDRs."
        )
        self._tries = Histogram(
            f"{_PREFIX}_cidrset_allocation_tries_per_request",
            "Number of CIDRs that were in use before a free one was found",
            _LABELS,
            buckets=_TRIES,
            registry=registry,
        )
        self._running = Gauge(
            "running_managed_controllers",
            "Indicates where instances of a controller are currently running",
            ("name", "manager"),
            registry=registry,
        )

    def started(self) -> None:
        """Show that the controller runs; upstream shows this controller only."""
        self._running.labels("nodeipam", "kube-controller-manager").set(1)

    def made(self, ranges: CIDRSet) -> None:
        """Show a new set of ranges."""
        self._most.labels(str(ranges.network)).set(ranges.size)
        self._show_usage(ranges)

    def tried(self, ranges: CIDRSet, tries: int) -> None:
        """Observe the number of taken ranges before a free one was found."""
        self._tries.labels(str(ranges.network)).observe(tries)

    def occupied(self, ranges: CIDRSet, count: int) -> None:
        """Count ranges that are in use now."""
        self._allocations.labels(str(ranges.network)).inc(count)
        self._show_usage(ranges)

    def freed(self, ranges: CIDRSet, count: int) -> None:
        """Count ranges that are free now."""
        self._releases.labels(str(ranges.network)).inc(count)
        self._show_usage(ranges)

    def _show_usage(self, ranges: CIDRSet) -> None:
        self._usage.labels(str(ranges.network)).set(ranges.taken / ranges.size)


class NodeRanges(Struct, frozen=True):
    """The ranges that a node has, or that are reserved for it."""

    uid: str
    ranges: tuple[Network, ...]


class RangeAllocator:
    """The ranges of all nodes, by the nodes' names; none is reserved for two nodes."""

    def __init__(self, settings: Settings, metrics: NodeIPAMMetrics) -> None:
        self._metrics = metrics
        ranges = settings.cluster
        self._sets = [CIDRSet(each.network, each.mask_size) for each in ranges]
        self._assigned: dict[str, NodeRanges] = {}
        for each in self._sets:
            metrics.made(each)
        for network in settings.services:
            self._occupy(network)

    @property
    def is_exhausted(self) -> bool:
        """True if a family has no free range left."""
        return any(each.is_exhausted for each in self._sets)

    @property
    def names(self) -> Sequence[str]:
        """The names of the nodes that hold ranges."""
        return tuple(self._assigned)

    def ranges_of(self, name: str) -> NodeRanges | None:
        """Return the ranges of a node, `None` if it has none."""
        return self._assigned.get(name)

    def is_outside(self, network: Network) -> bool:
        """Tell whether a range is outside the cluster's ranges."""
        return not any(overlap(each.network, network) for each in self._sets)

    def reserve(self, name: str, uid: str) -> NodeRanges | None:
        """Give a node a range of each family; return `None` if a family is exhausted.

        Upstream loses the range of the first family if the second has none.
        """
        if self.is_exhausted:
            return None
        found = []
        for each in self._sets:
            network, tries = each.allocate()
            self._metrics.tried(each, tries)
            self._metrics.occupied(each, 1)
            found.append(network)
        self._assigned[name] = assigned = NodeRanges(uid, tuple(found))
        return assigned

    def hold(self, name: str, assigned: NodeRanges) -> bool:
        """Take a node's ranges from its spec; tell whether others have some of them."""
        former = self._assigned.get(name)
        if former == assigned:
            return False
        if former is not None:
            self.release(name)
        self._assigned[name] = assigned
        shared = [each for each in assigned.ranges if self._occupy(each)]
        return bool(shared)

    def release(self, name: str) -> None:
        """Free the ranges of a node."""
        assigned = self._assigned.pop(name, None)
        for network in assigned.ranges if assigned else ():
            for each in self._sets:
                if freed := each.release(network):
                    self._metrics.freed(each, freed)

    def _occupy(self, network: Network) -> bool:
        """Take a range; tell whether a part of it was taken before."""
        is_shared = False
        for each in self._sets:
            if taken := each.occupy(network):
                self._metrics.occupied(each, taken)
            is_shared |= taken < each.parts_of(network)
        return is_shared
