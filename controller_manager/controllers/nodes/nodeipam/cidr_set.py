"""The ranges for nodes within one range of the cluster (ipam/cidrset/cidr_set.go).

`parse_network` reads a range as upstream does (ParseCIDRSloppy).
"""

import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network
from typing import Final

Network = IPv4Network | IPv6Network

_LEADING_ZEROS: Final = re.compile(r"(?<![0-9a-fA-F:])0+(?=[0-9])")
_MASK_SIZE: Final = re.compile(r"/[0-9]{1,3}$")


def parse_network(text: str) -> Network:
    """Parse a range; bits of its address beyond the mask are ignored.

    Numbers of an IPv4 address may have leading zeros; they are decimal. Raises
    ValueError for anything else than an address, a slash and a mask size.
    """
    if _MASK_SIZE.search(text) is None:
        msg = f"{text!r} has no mask size"
        raise ValueError(msg)
    return ip_network(_LEADING_ZEROS.sub("", text), strict=False)


def overlap(one: Network, other: Network) -> bool:
    """Tell whether two ranges have an address in common."""
    return one.version == other.version and one.overlaps(other)


_MANY: Final = 255
_ONE_MORE: Final = bytes(min(count + 1, _MANY) for count in range(256))
_ONE_LESS: Final = bytes(
    count - 1 if 0 < count < _MANY else count for count in range(256)
)
"""The next number of holders for each number. A range with 255 holders stays taken."""


class CIDRSet:
    """Equal parts of a range of the cluster, and the number of holders of each part.

    Normally a range has one holder, a node, or none. It has several holders if a user
    has given it to two nodes, or to a node although the services have it: then it is
    free after all of them have released it. Upstream frees it with the first of them.
    """

    def __init__(self, network: Network, mask_size: int) -> None:
        self.network = network
        self.size = 1 << (mask_size - network.prefixlen)
        """The number of parts."""

        self.taken = 0
        """The number of parts that have a holder."""

        self._mask_size = mask_size
        self._holders = bytearray()
        """The number of holders of each part, up to the last part that ever had a
        holder.
        """

        self._next = 0

    @property
    def is_exhausted(self) -> bool:
        """True if all parts have a holder."""
        return self.taken == self.size

    def allocate(self) -> tuple[Network, int]:
        """Take the next free range; return it, and the number of ranges tried before.

        A range that was freed is used again only after all ranges behind it. Raises
        LookupError if no range is free.
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

    @property
    def _shift(self) -> int:
        return self.network.max_prefixlen - self._mask_size

    def _index(self, address: int) -> int:
        return (address - int(self.network[0])) >> self._shift

    def _at(self, index: int) -> Network:
        made: type[IPv4Address | IPv6Address] = type(self.network[0])
        first = made(int(self.network[0]) + (index << self._shift))
        return ip_network((first, self._mask_size))
