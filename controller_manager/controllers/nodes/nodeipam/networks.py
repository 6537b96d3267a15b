"""Parsing ranges of addresses as upstream does (ParseCIDRSloppy)."""

import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final

Network = IPv4Network | IPv6Network

_LEADING_ZEROS: Final = re.compile(r"(?<![0-9a-fA-F:])0+(?=[0-9])")
_MASK_SIZE: Final = re.compile(r"/[0-9]{1,3}$")


def parse_network(text: str) -> Network:
    """Return a range; bits of its address beyond the mask are ignored.

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
