"""Checks values against a schema: formats of texts, types, bounds, combinations.

Upstream: kube-openapi/pkg/validation.
"""

import base64
import binascii
import ipaddress
import math
import re
from collections.abc import Callable, Iterator, Mapping
from operator import gt, lt
from typing import Any, Final
from urllib.parse import urlsplit

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_day
from controller_manager.devcluster.cel.values import is_number
from controller_manager.devcluster.scheme import statuses
from controller_manager.devcluster.scheme.names import compiled

from .keywords import (
    ABSENT,
    INT_OR_STRING,
    Result,
    child,
    go_number,
    key,
    no_schema_fits,
    old_field,
    old_items,
    properties_of,
    schema_of_others,
    wrong_type,
    wrong_value,
)

# Formats of texts (kube-openapi/pkg/validation/strfmt); others are not checked.

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


# Checks values against a schema, with the messages of a real API server.

_TYPES: Final = {str: "string", bool: "boolean", list: "array", dict: "object"}


def validate_value(
    value: Any, schema: JSON, *, base: str = "", old: Any = ABSENT
) -> list[statuses.Cause]:
    """Return the errors in a value.

    `base` is the path of the value; messages name fields below it. Parts that are the
    same in `old` are not checked.
    """
    return _Validator(base).result(value, schema, "", old).causes


class _Validator:
    def __init__(self, base: str) -> None:
        self._base = base

    def result(self, value: Any, schema: JSON, path: str, old: Any = ABSENT) -> Result:
        """Check a value; the order of the checks is that of upstream."""
        result = Result()
        for part in self._parts(value, schema, path, old):
            result.merge(part)
            result.matches += 1
        if result.causes and old is not ABSENT and old == value:
            result.causes.clear()
        return result

    def _parts(self, value: Any, schema: JSON, path: str, old: Any) -> Iterator[Result]:
        if wanted := _wanted_types(schema):
            yield Result(*self._type(value, schema, wanted, path))
        if value is None:
            yield Result(*self._enum(value, schema, path))
            return
        yield self._combinations(value, schema, path)
        if isinstance(value, str):
            yield Result(*self._text(value, schema, path))
            if is_known(format_ := schema.get("format", "")):
                fits = has_format(value, format_)
                wrong = wrong_type(self._field(path), path, format_, value)
                yield Result() if fits else Result(wrong)
        elif is_number(value):
            yield Result(*self._number(value, schema, path))
        elif isinstance(value, list):
            yield self._list(value, schema, path, old)
        yield Result(*self._enum(value, schema, path))
        if isinstance(value, dict):
            yield self._object(value, schema, path, old)

    def _field(self, path: str) -> str:
        return child(self._base, path) if path else self._base

    # Types and enumerations

    def _type(
        self, value: Any, schema: JSON, wanted: tuple[str, ...], path: str
    ) -> Iterator[statuses.Cause]:
        found, joined = _type_of(value), ",".join(wanted)
        if value is None:
            if not schema.get("nullable"):
                yield wrong_type(self._field(path), path, joined, "null")
            return
        fits = found in wanted or _is_whole(value, wanted)
        fits = fits or (found == "integer" and "number" in wanted)
        format_ = schema.get("format", "")
        if is_known(format_) and not {"number", "integer"} & {*wanted}:
            if isinstance(value, str | list):
                return  # the format says that a text is allowed
            if not fits:
                shape = {"integer": "int64", "number": "double"}.get(found, "")
                yield wrong_type(self._field(path), path, format_, shape)
                return
        if not fits:
            yield wrong_type(self._field(path), path, joined, found)

    def _enum(self, value: Any, schema: JSON, path: str) -> Iterator[statuses.Cause]:
        values = schema.get("enum")
        if not values or any(_is_same(value, each) for each in values):
            return
        texts = [
            each if isinstance(each, str) else statuses.shown(each) for each in values
        ]
        yield statuses.not_supported(self._field(path), statuses.shown(value), texts)

    # Combinations of schemas

    def _combinations(self, value: Any, schema: JSON, path: str) -> Result:
        result = Result()
        for name in ("anyOf", "oneOf", "allOf"):
            if not (several := schema.get(name)):
                continue
            results = [self.result(value, each, path) for each in several]
            count = sum(each.is_valid for each in results)
            if name == "allOf":
                for each in results:
                    result.merge(each)
            if why := _misfit(name, count, len(results)):
                cause = no_schema_fits(self._base, f'"{path}" {why}')
                result.causes.append(cause)
                if not count and name != "allOf":
                    result.merge(max(results, key=lambda each: each.matches))
        if (other := schema.get("not")) is not None:
            found = self.result(value, other, path)
            if found.is_valid:
                detail = f'"{path}" must not validate the schema (not)'
                result.causes.append(no_schema_fits(self._base, detail))
        return result

    # Texts and numbers

    def _text(self, value: str, schema: JSON, path: str) -> Iterator[statuses.Cause]:
        most, least = schema.get("maxLength"), schema.get("minLength")
        if most is not None and len(value) > most:
            yield statuses.too_long(self._field(path), most)
        if least is not None and len(value) < least:
            detail = f"should be at least {least} chars long"
            yield self._wrong(path, value, detail)
        pattern = schema.get("pattern")
        if pattern and not compiled(pattern).matches(value):
            yield self._wrong(path, value, f"should match '{pattern}'")

    def _number(
        self, value: float, schema: JSON, path: str
    ) -> Iterator[statuses.Cause]:
        factor = schema.get("multipleOf")
        if factor is not None and not _is_multiple(value, factor):
            detail = f"should be a multiple of {go_number(factor)}"
            yield self._wrong(path, value, detail)
        for end, word, is_beyond in _ENDS:
            if (limit := schema.get(f"{end}imum")) is None:
                continue
            excludes = schema.get(f"exclusive{end.capitalize()}imum", False)
            if is_beyond(value, limit) or (excludes and value == limit):
                words = word if excludes else f"{word} or equal to"
                yield self._wrong(path, value, f"should be {words} {go_number(limit)}")

    def _wrong(self, path: str, value: Any, detail: str) -> statuses.Cause:
        return wrong_value(self._field(path), value, f"{path} in body {detail}")

    # Lists and objects

    def _list(self, value: list[Any], schema: JSON, path: str, old: Any) -> Result:
        result = Result()
        items = schema.get("items")
        if isinstance(items, dict):
            before = old_items(old, value, schema)
            for number, each in enumerate(value):
                where = key(path, str(number))
                result.merge(self.result(each, items, where, before[number]))
        least, most = schema.get("minItems"), schema.get("maxItems")
        if least is not None and len(value) < least:
            detail = f"should have at least {least} items"
            result.causes.append(self._wrong(path, len(value), detail))
        if most is not None and len(value) > most:
            result.causes.append(statuses.too_many(self._field(path), len(value), most))
        return result

    def _object(self, value: JSON, schema: JSON, path: str, old: Any) -> Result:
        least, most = schema.get("minProperties"), schema.get("maxProperties")
        if least is not None and len(value) < least:
            detail = f"should have at least {least} properties"
            return Result(self._wrong(path, len(value), detail))
        if most is not None and len(value) > most:
            return Result(statuses.too_many(self._field(path), len(value), most))
        result = Result(
            *(
                statuses.required(self._field(child(path, name)))
                for name in schema.get("required") or ()
                if name not in value
            )
        )
        known, others = properties_of(schema), schema_of_others(schema)
        for name, each in value.items():
            inner = known.get(name, others)
            if inner is not None:
                before = old_field(old, schema, name)
                result.merge(self.result(each, inner, child(path, name), before))
            elif schema.get("additionalProperties") is False:
                detail = f"{child(path, name)} in body is a forbidden property"
                result.causes.append(wrong_value(self._field(path), "", detail))
        return result


_ENDS: Final = (("max", "less than", gt), ("min", "greater than", lt))


def _misfit(name: str, count: int, total: int) -> str:
    """Return why so many fitting schemas of several are wrong, "" if they are right."""
    match name:
        case "anyOf" if not count:
            return "must validate at least one schema (anyOf)"
        case "oneOf" if count != 1:
            found = f"{count} valid alternatives" if count else "none valid"
            return f"must validate one and only one schema (oneOf). Found {found}"
        case "allOf" if count < total:
            none = "" if count else ". None validated"
            return f"must validate all the schemas (allOf){none}"
    return ""


def _wanted_types(schema: JSON) -> tuple[str, ...]:
    if schema.get(INT_OR_STRING):
        return "integer", "string"
    wanted = schema.get("type")
    return (wanted,) if wanted else ()


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if is_number(value):
        return "integer" if isinstance(value, int) else "number"
    return _TYPES.get(type(value), "")


def _is_whole(value: Any, wanted: tuple[str, ...]) -> bool:
    """Tell whether a number such as 1.0 counts as the wanted integer."""
    return isinstance(value, float) and value.is_integer() and "integer" in wanted


def _is_multiple(value: float, factor: float) -> bool:
    if not factor:
        return True
    quotient = value / factor
    return math.isclose(quotient, round(quotient), rel_tol=1e-9, abs_tol=1e-9)


def _is_same(one: Any, other: Any) -> bool:
    """Compare JSON values: in Python 1 and True are equal."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)
