"""Validation of network policies (pkg/apis/networking/validation)."""

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    not_supported,
    required,
    shown,
)
from controller_manager.devcluster.validation.ip_addresses import NOT_A_RANGE
from controller_manager.devcluster.validation.label_selectors import validate_selector
from controller_manager.devcluster.validation.ports import (
    validate_port,
    validate_port_number,
)

_PROTOCOLS: Final = ("TCP", "UDP", "SCTP")
_TYPES: Final = ("Ingress", "Egress")


def validate_policy_spec(spec: JSON, known: frozenset[str]) -> Iterator[Cause]:
    """Yield the errors in the spec of a network policy.

    The `known` ranges, which the policy had before, are not checked.
    """
    yield from validate_selector(spec["podSelector"], "spec.podSelector")
    for direction, peers in (("ingress", "from"), ("egress", "to")):
        for number, rule in enumerate(spec.get(direction) or ()):
            field = f"spec.{direction}[{number}]"
            for index, port in enumerate(rule.get("ports") or ()):
                yield from _validate_port(port, f"{field}.ports[{index}]")
            for index, peer in enumerate(rule.get(peers) or ()):
                yield from _validate_peer(peer, f"{field}.{peers}[{index}]", known)
    yield from _validate_types(spec["policyTypes"])


def ranges_of(spec: JSON) -> frozenset[str]:
    """Return all ranges of addresses in the spec of a network policy."""
    rules = (*(spec.get("ingress") or ()), *(spec.get("egress") or ()))
    peers = [each for rule in rules for each in _peers(rule)]
    blocks = [each["ipBlock"] for each in peers if each.get("ipBlock")]
    found = {each.get("cidr", "") for each in blocks}
    return frozenset(found.union(*(each.get("except") or () for each in blocks)))


def _peers(rule: JSON) -> Sequence[JSON]:
    return (*(rule.get("from") or ()), *(rule.get("to") or ()))


def _validate_types(types: Sequence[str]) -> Iterator[Cause]:
    if len(types) > len(_TYPES):
        why = "may not specify more than two policyTypes"
        yield invalid("spec.policyTypes", shown(types), why)
        return
    for number, each in enumerate(types):
        if each not in _TYPES:
            yield not_supported(f"spec.policyTypes[{number}]", shown(each), _TYPES)


def _validate_port(port: JSON, field: str) -> Iterator[Cause]:
    if (protocol := port.get("protocol")) not in (None, *_PROTOCOLS):
        yield not_supported(f"{field}.protocol", shown(protocol), _PROTOCOLS)
    first, last = port.get("port"), port.get("endPort")
    if first is not None:
        yield from validate_port(first, f"{field}.port")
    if last is None:
        return
    where = f"{field}.endPort"
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


def _validate_peer(peer: JSON, field: str, known: frozenset[str]) -> Iterator[Cause]:
    for name in ("podSelector", "namespaceSelector"):
        if name in peer:
            yield from validate_selector(peer[name], f"{field}.{name}")
    if "ipBlock" in peer:
        yield from _validate_block(peer["ipBlock"], f"{field}.ipBlock", known)
    if not peer:
        yield required(field, "must specify a peer")
    elif "ipBlock" in peer and len(peer) > 1:
        yield forbidden_field(field, "may not specify both ipBlock and another peer")


def _validate_block(block: JSON, field: str, known: frozenset[str]) -> Iterator[Cause]:
    text = block.get("cidr", "")
    if not text:
        yield required(f"{field}.cidr")
        return
    yield from _validate_range(text, f"{field}.cidr", known)
    if (whole := _range(text)) is None:
        return
    for number, each in enumerate(block.get("except") or ()):
        where, part = f"{field}.except[{number}]", _range(each)
        yield from _validate_range(each, where, known)
        if part is None:
            continue
        if whole.prefixlen >= part.prefixlen or not _contains(whole, part):
            yield invalid(where, shown(each), "must be a strict subset of `cidr`")


def _validate_range(text: str, field: str, known: frozenset[str]) -> list[Cause]:
    if text in known or _range(text) is not None:
        return []
    return [invalid(field, shown(text), NOT_A_RANGE)]


def _range(text: str) -> IPv4Network | IPv6Network | None:
    """Return a range of addresses; bits after its prefix may be set."""
    try:
        return ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def _contains(whole: IPv4Network | IPv6Network, part: Any) -> bool:
    return whole.version == part.version and part.network_address in whole
