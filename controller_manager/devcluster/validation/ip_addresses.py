"""IP addresses in the fields of objects (apimachinery validation, net/netip)."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown

Address = IPv4Address | IPv6Address

NOT_A_RANGE: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_REMEMBERED: Final = 32_768
"""The most cached addresses: the endpoints of a service are written often."""

_NOT_AN_ADDRESS: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_LINK_LOCAL_MULTICAST: Final = (
    "in the link-local multicast range (224.0.0.0/24, ff02::/10)"
)


@lru_cache(maxsize=_REMEMBERED)
def parse_address(text: str) -> Address | None:
    """Return an IP address, `None` if the text is none."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    has_zone = isinstance(address, IPv6Address) and address.scope_id is not None
    return None if has_zone else address


def is_in_family(text: str, family: str) -> bool:
    """Tell whether a text is an address of a family, ``IPv4`` or ``IPv6``."""
    address = parse_address(text)
    return address is not None and family_of(address) == family


def family_of(address: Address) -> str:
    """Return ``IPv4`` or ``IPv6``."""
    return f"IPv{address.version}"


def range_version(text: str) -> int | None:
    """Return the version of a range's addresses, `None` if it is no range."""
    try:
        return ip_network(text).version if "/" in text else None
    except ValueError:
        return None


def validate_address(text: str, field: str) -> list[Cause]:
    """Check that a text is an IP address."""
    if parse_address(text) is None:
        return [invalid(field, shown(text), _NOT_AN_ADDRESS)]
    return []


def validate_endpoint_address(text: str, field: str) -> list[Cause]:
    """Check that an address may be that of an endpoint (ValidateEndpointIP)."""
    return [invalid(field, shown(text), detail) for detail in _unfit_text(text)]


@lru_cache(maxsize=_REMEMBERED)
def _unfit_text(text: str) -> tuple[str, ...]:
    """Return why a text cannot be the address of an endpoint."""
    address = parse_address(text)
    if address is None:
        return (_NOT_AN_ADDRESS,)
    return tuple(f"may not be {detail}" for detail in _unfit(address))


def _unfit(address: Address) -> list[str]:
    """Return why an address cannot be that of an endpoint."""
    found = (
        (address.is_unspecified, f"unspecified ({address})"),
        (address.is_loopback, "in the loopback range (127.0.0.0/8, ::1/128)"),
        (
            address.is_link_local,
            "in the link-local range (169.254.0.0/16, fe80::/10)",
        ),
        (_is_link_local_multicast(address), _LINK_LOCAL_MULTICAST),
    )
    return [detail for is_so, detail in found if is_so]


def _is_link_local_multicast(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return address.packed[:3] == b"\xe0\x00\x00"
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02
