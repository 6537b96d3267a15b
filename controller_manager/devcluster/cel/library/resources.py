"""URLs, quantities, addresses and networks (pkg/cel/library of the API server)."""

import ipaddress
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Final
from urllib.parse import SplitResult, parse_qs, quote, urlsplit

from controller_manager.api.quantity import Quantity, parse_quantity
from controller_manager.devcluster.cel.values import (
    MOST_INT,
    Address,
    EvaluationError,
    Network,
    Value,
    no_overload,
)

from .checks import expect, is_parsed, parsed

_NANOS: Final = 10**9
_IN_PATHS: Final = "/%:@!$&'()*+,;=~"

# URLs


def _url_of(text: str) -> SplitResult:
    found = urlsplit(text)
    _ = found.port
    is_odd = any(each <= " " for each in text)
    if is_odd or not (text.startswith("/") or (found.scheme and found.netloc)):
        msg = f'URL parse error during conversion from string: "{text}" is no URL'
        raise ValueError(msg)
    return found


def _host(url: Value) -> str:
    return expect(url, SplitResult).netloc.rpartition("@")[2]


def _hostname(url: Value) -> str:
    host, _, last = _host(url).rpartition(":")
    if not host or not last.isdecimal():
        host = _host(url)
    return host.removeprefix("[").removesuffix("]")


def _port(url: Value) -> str:
    found = expect(url, SplitResult).port
    return "" if found is None else str(found)


# Quantities


def _quantity_of(text: str) -> Quantity:
    return parse_quantity(text)


def _compare(one: Value, other: Value) -> int:
    left, right = expect(one, Quantity).nanos, expect(other, Quantity).nanos
    return (left > right) - (left < right)


def _amount(value: Value) -> Quantity:
    if isinstance(value, int) and not isinstance(value, bool):
        return Quantity.of(value)
    return expect(value, Quantity)


def _is_integer(value: Value) -> bool:
    nanos = expect(value, Quantity).nanos
    return nanos % _NANOS == 0 and abs(nanos // _NANOS) <= MOST_INT


def _as_integer(value: Value) -> int:
    if not _is_integer(value):
        msg = "cannot convert value to integer"
        raise EvaluationError(msg)
    return int(value.nanos // _NANOS)


def _sign(value: Value) -> int:
    nanos = expect(value, Quantity).nanos
    return (nanos > 0) - (nanos < 0)


# Addresses and networks


def _address_of(text: str) -> Address:
    if "%" in text:
        msg = f'IP Address "{text}" with zone value is not allowed'
        raise ValueError(msg)
    found = ipaddress.ip_address(text)
    if getattr(found, "ipv4_mapped", None) is not None:
        msg = f'IPv4-mapped IPv6 address "{text}" is not allowed'
        raise ValueError(msg)
    return found


def _network_of(text: str) -> Network:
    address, slash, bits = text.partition("/")
    if not slash or not bits.isdecimal():
        msg = f'network address parse error during conversion from string: "{text}"'
        raise ValueError(msg)
    _address_of(address)
    return ipaddress.ip_interface(text)


def _address(value: Value) -> Address:
    if not isinstance(value, IPv4Address | IPv6Address):
        raise no_overload()
    return value


def _network(value: Value) -> Network:
    if not isinstance(value, IPv4Interface | IPv6Interface):
        raise no_overload()
    return value


def _contains_address(network: Value, address: Value) -> bool:
    found = parsed(_address_of, address) if isinstance(address, str) else address
    return _address(found) in _network(network).network


def _contains_network(outer: Value, inner: Value) -> bool:
    found = parsed(_network_of, inner) if isinstance(inner, str) else inner
    one, other = _network(outer).network, _network(found).network
    if one.version != other.version or one.prefixlen > other.prefixlen:
        return False
    return bool(other.network_address in one)


def _ip(value: Value) -> Address:
    """Return an address: the one of a text, or of a network."""
    if isinstance(value, str):
        return parsed(_address_of, value)
    return _network(value).ip


def _is_canonical(value: Value) -> bool:
    return bool(str(parsed(_address_of, value)) == value)


def _family(value: Value) -> int:
    return int(_address(value).version)


def _is_global(value: Value) -> bool:
    """Tell whether an address is global unicast, as Go means it."""
    found = _address(value)
    is_other = found.is_unspecified or found.is_loopback or found.is_multicast
    is_broadcast = str(found) == "255.255.255.255"
    return not (is_other or found.is_link_local or is_broadcast)


def _masked(value: Value) -> Network:
    network = _network(value).network
    return ipaddress.ip_interface(f"{network.network_address}/{network.prefixlen}")


GLOBALS: Final[Mapping[str, Callable[..., Value]]] = {
    "cidr": lambda text: parsed(_network_of, text),
    "ip": _ip,
    "ip.isCanonical": _is_canonical,
    "isCIDR": lambda text: is_parsed(_network_of, text),
    "isIP": lambda text: is_parsed(_address_of, text),
    "isQuantity": lambda text: is_parsed(_quantity_of, text),
    "isURL": lambda text: is_parsed(_url_of, text),
    "quantity": lambda text: parsed(_quantity_of, text),
    "url": lambda text: parsed(_url_of, text),
}
METHODS: Final[Mapping[str, Callable[..., Value]]] = {
    "getEscapedPath": lambda url: quote(expect(url, SplitResult).path, safe=_IN_PATHS),
    "getHost": _host,
    "getHostname": _hostname,
    "getPort": _port,
    "getQuery": lambda url: parse_qs(
        expect(url, SplitResult).query, keep_blank_values=True
    ),
    "getScheme": lambda url: expect(url, SplitResult).scheme,
    "add": lambda one, other: expect(one, Quantity) + _amount(other),
    "sub": lambda one, other: expect(one, Quantity) - _amount(other),
    "asApproximateFloat": lambda value: expect(value, Quantity).nanos / _NANOS,
    "asInteger": _as_integer,
    "compareTo": _compare,
    "isGreaterThan": lambda one, other: _compare(one, other) > 0,
    "isInteger": _is_integer,
    "isLessThan": lambda one, other: _compare(one, other) < 0,
    "sign": _sign,
    "containsCIDR": _contains_network,
    "containsIP": _contains_address,
    "family": _family,
    "ip": lambda network: _network(network).ip,
    "isGlobalUnicast": _is_global,
    "isLinkLocalMulticast": lambda ip: (
        str(ip).startswith("224.0.0.") or str(ip).lower().startswith("ff02:")
    ),
    "isLinkLocalUnicast": lambda ip: _address(ip).is_link_local,
    "isLoopback": lambda ip: _address(ip).is_loopback,
    "isUnspecified": lambda ip: _address(ip).is_unspecified,
    "masked": _masked,
    "prefixLength": lambda network: _network(network).network.prefixlen,
}
