"""Checks of single values (apimachinery validation, pkg/apis/*/validation)."""

import re
from collections.abc import Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any, Final

import msgspec

from controller_manager.api import selectors
from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import ZERO, parse_quantity
from controller_manager.devcluster.scheme.names import (
    validate_labels,
    validate_qualified_name,
    validate_subdomain,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    required,
    shown,
    too_long,
)

IMMUTABLE: Final = "field is immutable"
NOT_NEGATIVE: Final = "must be greater than or equal to 0"
_POSITIVE: Final = "must be greater than zero"
_LONGEST_DRIVER: Final = 63


def validate_quantity(text: str, field: str) -> list[Cause]:
    """Check that a quantity is at least 0."""
    is_negative = parse_quantity(text) < ZERO
    return [invalid(field, shown(text), NOT_NEGATIVE)] if is_negative else []


def validate_positive_quantity(text: str, field: str) -> list[Cause]:
    """Check that a quantity is greater than 0."""
    is_positive = parse_quantity(text) > ZERO
    return [] if is_positive else [invalid(field, shown(text), _POSITIVE)]


def is_whole(amount: str) -> bool:
    """Tell whether a quantity has no thousandths besides whole numbers."""
    return parse_quantity(amount).milli_value % 1000 == 0


def validate_int_or_percent(value: Any, field: str) -> list[Cause]:
    """Check that a value is a number of at least 0, or a percentage."""
    if isinstance(value, int):
        return [invalid(field, shown(value), NOT_NEGATIVE)] if value < 0 else []
    if not re.fullmatch(r"[0-9]+%", str(value)):
        detail = (
            "a valid percent string must be a numeric string followed by an ending "
            "'%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
        )
        return [invalid(field, shown(value), detail)]
    return []


def percent(value: Any) -> int:
    """Return the number of a percentage, 0 for anything else."""
    if isinstance(value, str) and value.removesuffix("%").isdecimal():
        return int(value.removesuffix("%"))
    return 0


def validate_descending_path(path: str, field: str) -> Iterator[Cause]:
    """Check that a path is relative and does not leave its volume."""
    if path.startswith("/"):
        yield invalid(field, shown(path), "must be a relative path")
    if ".." in path.split("/"):
        yield invalid(field, shown(path), "must not contain '..'")


def validate_driver(name: str, field: str) -> Iterator[Cause]:
    """Check the name of a driver: a subdomain in lower or upper case."""
    if not name:
        yield required(field)
        return
    if len(name) > _LONGEST_DRIVER:
        yield too_long(field, _LONGEST_DRIVER)
    yield from validate_subdomain(name.lower(), field)


def validate_label_value(value: str, field: str) -> list[Cause]:
    """Check the value of a label."""
    return validate_labels({"key": value}, field)


# Label selectors

NO_VALUES: Final = "must be specified when `operator` is 'In' or 'NotIn'"
TOO_MANY_VALUES: Final = (
    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
)
_WITH_VALUES: Final = ("In", "NotIn")
_WITHOUT_VALUES: Final = ("Exists", "DoesNotExist")


def validate_selector(selector: JSON | None, field: str) -> list[Cause]:
    """Check that a label selector is valid."""
    given = selector or {}
    causes = validate_labels(given.get("matchLabels") or {}, f"{field}.matchLabels")
    for number, each in enumerate(given.get("matchExpressions") or ()):
        causes += _validate_requirement(each, f"{field}.matchExpressions[{number}]")
    return causes


def _validate_requirement(each: JSON, field: str) -> list[Cause]:
    operator, values = each.get("operator", ""), each.get("values") or []
    where, causes = f"{field}.values", []
    if operator not in (*_WITH_VALUES, *_WITHOUT_VALUES):
        value, why = shown(operator), "not a valid selector operator"
        causes.append(invalid(f"{field}.operator", value, why))
    elif operator in _WITH_VALUES and not values:
        causes.append(required(where, NO_VALUES))
    elif operator in _WITHOUT_VALUES and values:
        causes.append(forbidden_field(where, TOO_MANY_VALUES))
    causes += validate_qualified_name(each.get("key", ""), f"{field}.key")
    for number, value in enumerate(values):
        causes += validate_labels({"key": value}, f"{where}[{number}]")
    return causes


def selects(selector: JSON | None, labels: dict[str, str]) -> bool:
    """Tell whether a selector selects objects with these labels.

    An absent selector selects nothing. An invalid selector selects everything, because
    another check reports it.
    """
    try:
        return selector is not None and selectors.compile_selector(
            msgspec.convert(selector or {}, selectors.LabelSelector)
        ).matches(labels)
    except selectors.SelectorError:
        return True


# Ports

NOT_A_PORT: Final = "must be between 1 and 65535, inclusive"
_HIGHEST_PORT: Final = 65535
_LONGEST_PORT_NAME: Final = 15


def is_port(number: int) -> bool:
    """Tell whether a number is that of a port."""
    return 0 < number <= _HIGHEST_PORT


def validate_port_number(number: int, field: str) -> list[Cause]:
    """Check the number of a port (IsValidPortNum)."""
    return [] if is_port(number) else [invalid(field, shown(number), NOT_A_PORT)]


def validate_port_name(name: str, field: str) -> list[Cause]:
    """Check the name of a port (IsValidPortName)."""
    return [invalid(field, shown(name), detail) for detail in _problems_of_port(name)]


def validate_port(port: Any, field: str) -> list[Cause]:
    """Check a port that is given by its number or by its name."""
    if isinstance(port, int):
        return validate_port_number(port, field)
    return validate_port_name(str(port), field)


def _problems_of_port(name: str) -> list[str]:
    found = (
        (
            len(name) > _LONGEST_PORT_NAME,
            f"must be no more than {_LONGEST_PORT_NAME} characters",
        ),
        (
            not re.fullmatch(r"[-a-z0-9]+", name),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (not re.search(r"[a-z]", name), "must contain at least one letter (a-z)"),
        ("--" in name, "must not contain consecutive hyphens"),
        (
            name.startswith("-") or name.endswith("-"),
            "must not begin or end with a hyphen",
        ),
    )
    return [detail for is_so, detail in found if is_so]


# IP addresses

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


# Names like ``example.com/controller``

_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_PATH_TEXT: Final = f"Invalid path (regex used for validation is '{_PATH.pattern}')"


def validate_domain_prefixed_path(text: str, field: str) -> list[Cause]:
    """Check that a text is a domain, a slash, and a path."""
    if not text:
        return [required(field)]
    domain, slash, path = text.partition("/")
    if not slash or not domain or not path:
        detail = 'must be a domain-prefixed path (such as "acme.io/foo")'
        return [invalid(field, shown(text), detail)]
    causes = validate_subdomain(domain, field)
    if not _PATH.fullmatch(path):
        causes.append(invalid(field, shown(path), _PATH_TEXT))
    return causes
