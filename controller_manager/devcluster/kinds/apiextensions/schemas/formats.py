"""Formats of texts (kube-openapi/pkg/validation/strfmt).

A format that is not among these is not checked, as on a real API server.
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from controller_manager.api.scalars import parse_day

_UUID: Final = (
    r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?%s[0-9a-f]{3}-?%s[0-9a-f]{3}-?[0-9a-f]{12}"
)
_PATTERNS: Final = {
    "bsonobjectid": r"[0-9a-fA-F]{24}",
    "mac": (
        r"(?i)([0-9a-f]{2}([:-]))(?:[0-9a-f]{2}\2){4}(?:(?:[0-9a-f]{2}\2){2})?"
        r"[0-9a-f]{2}|([0-9a-f]{4}\.){2}(?:[0-9a-f]{4}\.)?[0-9a-f]{4}"
    ),
    "uuid": _UUID % ("[0-9a-f]", "[0-9a-f]"),
    "uuid3": _UUID % ("3", "[0-9a-f]"),
    "uuid4": _UUID % ("4", "[89ab]"),
    "uuid5": _UUID % ("5", "[89ab]"),
    "ssn": r"\d{3}[- ]?\d{2}[- ]?\d{4}",
    "hexcolor": r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})",
    "hostname": (
        r"([a-zA-Z0-9\u00a0-\ufffc]([a-zA-Z0-9-\u00a0-\ufffc]{0,61}"
        r"[a-zA-Z0-9\u00a0-\ufffc])?)"
        r"(\.[a-zA-Z0-9\u00a0-\ufffc]([a-zA-Z0-9-\u00a0-\ufffc]{0,61}"
        r"[a-zA-Z0-9\u00a0-\ufffc])?)*\.?"
    ),
    "email": r"[^@\s<>()\[\],;:\\\"]+@[^@\s<>()\[\],;:\\\"]+",
    "rgbcolor": (
        r"rgb\(\s*((0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*){2}"
        r"(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)"
    ),
    "duration": (
        r"[-+]?((\d+(\.\d*)?|\.\d+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h))+|[-+]?0"
        r"|\s*\d+\s*(ns|nanos?|nanoseconds?|us|micros?|microseconds?|ms|millis?"
        r"|milliseconds?|s|sec|secs|seconds?|m|mins?|minutes?|h|hr|hours?|d|days?"
        r"|w|weeks?)\s*"
    ),
}
"""Formats with a regular expression. No text makes them slow."""


def _date(text: str) -> bool:
    return parse_day(text) is not None


def _date_time(text: str) -> bool:
    found = re.fullmatch(
        r"(.*)[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)",
        text,
        re.ASCII,
    )
    return found is not None and _date(found[1])


def _address(version: int) -> Callable[[str], bool]:
    def is_address(text: str) -> bool:
        try:
            return ipaddress.ip_address(text).version == version and "%" not in text
        except ValueError:
            return False

    return is_address


def _network(text: str) -> bool:
    _, slash, bits = text.partition("/")
    if not slash or not bits.isdecimal():
        return False
    try:
        ipaddress.ip_interface(text)
    except ValueError:
        return False
    return True


def _uri(text: str) -> bool:
    """Tell whether Go's ParseRequestURI takes a text: an absolute URI or path."""
    if not text or any(ord(each) <= 32 or ord(each) == 127 for each in text):
        return False
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return text.startswith("/") or bool(parts.scheme)


def _base64(text: str) -> bool:
    try:
        base64.b64decode(re.sub(r"[\r\n]", "", text), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _credit_card(text: str) -> bool:
    digits = re.sub(r"\D", "", text)
    kinds = (
        r"4\d{12}(\d{3})?|5[1-5]\d{14}|6(011|5\d\d)\d{12}|3[47]\d{13}"
        r"|3(0[0-5]|[68]\d)\d{11}|(2131|1800|35\d{3})\d{11}"
    )
    if not re.fullmatch(kinds, digits):
        return False
    total = 0
    for number, digit in enumerate(reversed(digits)):
        doubled = int(digit) * (1 + number % 2)
        total += doubled - 9 * (doubled > 9)
    return total % 10 == 0


def _isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"\d{9}[\dX]", digits):
        return False
    numbers = [10 if each == "X" else int(each) for each in digits]
    weighed = (number * (10 - place) for place, number in enumerate(numbers))
    return sum(weighed) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"\d{13}", digits):
        return False
    return (
        sum(int(each) * (1, 3)[place % 2] for place, each in enumerate(digits)) % 10
        == 0
    )


_CHECKS: Final[Mapping[str, Callable[[str], bool]]] = {
    "byte": _base64,
    "cidr": _network,
    "creditcard": _credit_card,
    "date": _date,
    "datetime": _date_time,
    "ipv4": _address(4),
    "ipv6": _address(6),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "password": lambda _: True,
    "uri": _uri,
}


def is_known(format_: str) -> bool:
    """Tell whether a format is checked."""
    name = format_.replace("-", "")
    return name in _CHECKS or name in _PATTERNS


def has_format(text: str, format_: str) -> bool:
    """Tell whether a text has a format; every text has an unknown format."""
    name = format_.replace("-", "")
    if check := _CHECKS.get(name):
        return check(text)
    pattern = _PATTERNS.get(name)
    return pattern is None or re.fullmatch(pattern, text) is not None
