"""The functions of the API server (pkg/cel/library): URLs, quantities, permissions."""

import ipaddress
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface
from typing import Final
from urllib.parse import SplitResult, parse_qs, quote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.quantity import Quantity, parse_quantity

from .values import (
    MOST_INT,
    Address,
    EvaluationError,
    Network,
    Value,
    expect,
    is_parsed,
    no_overload,
    parsed,
)

# URLs, quantities, addresses and networks (pkg/cel/library of the API server).

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
        raise EvaluationError("cannot convert value to integer")
    return int(value.nanos // _NANOS)


def _sign(value: Value) -> int:
    nanos = expect(value, Quantity).nanos
    return (nanos > 0) - (nanos < 0)


# Addresses and networks


def _address_of(text: str) -> Address:
    if "%" in text:
        raise ValueError(f'IP Address "{text}" with zone value is not allowed')
    found = ipaddress.ip_address(text)
    if getattr(found, "ipv4_mapped", None) is not None:
        raise ValueError(f'IPv4-mapped IPv6 address "{text}" is not allowed')
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
    if isinstance(value, str):
        return parsed(_address_of, value)
    return _network(value).ip


def _is_global(value: Value) -> bool:
    """Tell whether an address is global unicast, as Go means it."""
    found = _address(value)
    is_other = found.is_unspecified or found.is_loopback or found.is_multicast
    is_broadcast = str(found) == "255.255.255.255"
    return not (is_other or found.is_link_local or is_broadcast)


def _masked(value: Value) -> Network:
    network = _network(value).network
    return ipaddress.ip_interface(f"{network.network_address}/{network.prefixlen}")


# The authorizer in expressions (library/authz.go of k8s.io/apiserver).


class Decision(Struct, frozen=True):
    """The answer of the authorizer, which gives no reason and cannot fail."""

    allowed: bool


class Authorizer(Struct, frozen=True):
    """The value ``authorizer``, or a question to it, which is `about` something.

    `decide` gets the attributes of the question, and the account that it is about:
    `None` for the user of the admission request.
    """

    decide: Callable[[Mapping[str, str], tuple[str, str] | None], bool]
    attributes: Mapping[str, str] = {}
    account: tuple[str, str] | None = None
    about: str = ""
    """``group``, ``path`` or ``resource``; empty before there is a question."""


def _question(value: Value, *about: str) -> Authorizer:
    found = expect(value, Authorizer)
    if found.about not in about:
        raise no_overload()
    return found


def _service_account(one: Value, namespace: Value, name: Value) -> Authorizer:
    account = (expect(namespace, str), expect(name, str))
    return replace(_question(one, ""), account=account)


def _asking(field: str, *, after: str) -> Callable[[Value, Value], Authorizer]:
    """Return a method that adds an attribute to a question about `after`."""

    def method(one: Value, value: Value) -> Authorizer:
        found = _question(one, after)
        if not expect(value, str) and field == "path":
            raise EvaluationError("path must not be empty")
        about = field if after != "resource" else after
        return replace(
            found, attributes={**found.attributes, field: value}, about=about
        )

    return method


def _check(one: Value, verb: Value) -> Decision:
    found = _question(one, "path", "resource")
    attributes = {**found.attributes, "verb": expect(verb, str)}
    return Decision(found.decide(attributes, found.account))


def _of_decision(value: Value) -> Callable[[Value], Value]:
    """Return a method that has the same value for each decision."""

    def method(one: Value) -> Value:
        expect(one, Decision)
        return value

    return method


# Functions for JSON patches (library/jsonpatch.go of k8s.io/apiserver).


GLOBALS: Final[Mapping[str, Callable[..., Value]]] = {
    "cidr": lambda text: parsed(_network_of, text),
    "ip": _ip,
    "ip.isCanonical": lambda text: str(parsed(_address_of, text)) == text,
    "isCIDR": lambda text: is_parsed(_network_of, text),
    "isIP": lambda text: is_parsed(_address_of, text),
    "isQuantity": lambda text: is_parsed(_quantity_of, text),
    "isURL": lambda text: is_parsed(_url_of, text),
    "quantity": lambda text: parsed(_quantity_of, text),
    "url": lambda text: parsed(_url_of, text),
    "jsonpatch.escapeKey": lambda key: (
        expect(key, str).replace("~", "~0").replace("/", "~1")
    ),
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
    "family": lambda value: int(_address(value).version),
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
    "allowed": lambda one: expect(one, Decision).allowed,
    "check": _check,
    "error": _of_decision(""),
    "errored": _of_decision(value=False),
    "group": _asking("group", after=""),
    "name": _asking("name", after="resource"),
    "namespace": _asking("namespace", after="resource"),
    "path": _asking("path", after=""),
    "reason": _of_decision(""),
    "resource": _asking("resource", after="group"),
    "serviceAccount": _service_account,
    "subresource": _asking("subresource", after="resource"),
}
