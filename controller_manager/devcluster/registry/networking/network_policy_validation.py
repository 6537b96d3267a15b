"""The rules for network policies (pkg/apis/networking/validation)."""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.validation.ip_addresses import NOT_A_RANGE
from controller_manager.devcluster.validation.ports import validate_port_number
from controller_manager.devcluster.validation.text import table

_TYPES: Final = ("Ingress", "Egress")


def _ranges_of(spec: JSON) -> frozenset[str]:
    """Return all ranges of addresses in the spec of a network policy."""
    rules = (*(spec.get("ingress") or ()), *(spec.get("egress") or ()))
    peers = [each for rule in rules for each in _peers(rule)]
    blocks = [each["ipBlock"] for each in peers if each.get("ipBlock")]
    found = {each.get("cidr", "") for each in blocks}
    return frozenset(found.union(*(each.get("except") or () for each in blocks)))


def _peers(rule: JSON) -> Sequence[JSON]:
    return (*(rule.get("from") or ()), *(rule.get("to") or ()))


def _types(types: Sequence[str], field: str) -> Iterator[Cause]:
    if len(types) > len(_TYPES):
        why = "may not specify more than two policyTypes"
        yield invalid(field, shown(types), why)
        return
    for number, each in enumerate(types):
        if each not in _TYPES:
            yield not_supported(f"{field}[{number}]", shown(each), _TYPES)


def _last_port(port: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check the end of a range of ports."""
    first, last, where = port.get("port"), port["endPort"], f"{path}endPort"
    if first is None:
        why = "may not be specified when `port` is not specified"
        yield invalid(where, shown(last), why)
    elif not isinstance(first, int):
        why = "may not be specified when `port` is non-numeric"
        yield invalid(where, shown(last), why)
    else:
        if last < first:
            why = "must be greater than or equal to `port`"
            yield invalid(where, shown(last), why)
        yield from validate_port_number(last, where)


def _block(block: JSON, path: str, old: JSON) -> Iterator[Cause]:
    text = block.get("cidr", "")
    if not text:
        yield required(f"{path}cidr")
        return
    yield from _validate_range(text, f"{path}cidr", old)
    if (whole := _range(text)) is None:
        return
    for number, each in enumerate(block.get("except") or ()):
        where, part = f"{path}except[{number}]", _range(each)
        yield from _validate_range(each, where, old)
        if part is None:
            continue
        if whole.prefixlen >= part.prefixlen or not _contains(whole, part):
            yield invalid(where, shown(each), "must be a strict subset of `cidr`")


def _validate_range(text: str, field: str, old: JSON) -> Iterator[Cause]:
    """Check a range that the `old` spec does not have."""
    if _range(text) is None and text not in _ranges_of(old):
        yield invalid(field, shown(text), NOT_A_RANGE)


def _range(text: str) -> IPv4Network | IPv6Network | None:
    """Return a range of addresses; bits after its prefix may be set."""
    try:
        return ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def _contains(whole: IPv4Network | IPv6Network, part: Any) -> bool:
    return whole.version == part.version and part.network_address in whole


def _is_empty(peer: JSON, _: JSON) -> bool:
    return not peer


def _mixes(peer: JSON, _: JSON) -> bool:
    return "ipBlock" in peer and len(peer) > 1


_PORT: Final = table(
    """
    protocol: enum TCP UDP SCTP
    port: port-or-name pointer
    when has endPort:
      hook last_port
    """,
    _last_port,
)
_PEER: Final = table(
    """
    podSelector, namespaceSelector: selector
    ipBlock outer:
      hook block
    self: required if is_empty "must specify a peer"
    self: forbidden if mixes "may not specify both ipBlock and another peer"
    """,
    _block,
    _is_empty,
    _mixes,
)
NETWORK_POLICY: Final = table(
    """
    spec change:
      podSelector: selector
      ingress[] outer:
        ports[]:
          include PORT
        from[] outer:
          include PEER
      egress[] outer:
        ports[]:
          include PORT
        to[] outer:
          include PEER
      policyTypes: types
    """,
    _types,
    PORT=_PORT,
    PEER=_PEER,
)
"""The rules for new policies and for updates, in which a wrong range may stay."""
