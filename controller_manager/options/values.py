"""Parses values, from the command line (pflag's syntax) and from a file (YAML)."""

import csv
import ipaddress
import math
import re
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Final

from .durations import format_duration, parse_duration
from .flag import Flag, FlagType

_INTEGER: Final = re.compile(
    r"[+-]?(?P<digits>"
    r"0[xX](_?[0-9a-fA-F])+|0[bB](_?[01])+|0[oO](_?[0-7])+"
    r"|(?P<octal>0(_?[0-7])+)|0|[1-9](_?[0-9])*)"
)
_DECIMAL: Final = re.compile(r"[0-9]+")
_FLOAT: Final = re.compile(r"[+-]?([0-9_]+\.?[0-9_]*|\.[0-9_]+)([eE][+-]?[0-9_]+)?")
_HEX_FLOAT: Final = re.compile(
    r"[+-]?0[xX]([0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
)


def parse_integer(text: str, bits: int) -> int:
    """Return an integer of at most `bits` bits, as ``strconv.ParseInt`` with base 0.

    ``0x10`` is 16, ``024`` is 20, ``0b11`` is 3 and ``1_0`` is 10. Raises ValueError.
    """
    found = _INTEGER.fullmatch(text)
    if found is None:
        msg = f"not a whole number: {text!r}"
        raise ValueError(msg)
    octal = found["octal"]
    number = int(octal, 8) if octal else int(found["digits"], 0)
    return in_range(-number if text.startswith("-") else number, bits)


def parse_level(text: str) -> int:
    """Return a verbosity, as ``strconv.ParseUint`` with base 10: digits only.

    Raises ValueError.
    """
    if not _DECIMAL.fullmatch(text):
        msg = f"not a whole number: {text!r}"
        raise ValueError(msg)
    return in_range(int(text), 32)


def in_range(number: int, bits: int) -> int:
    """Return a number that fits into `bits` bits; raises ValueError for another."""
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        msg = f"out of range: {number}"
        raise ValueError(msg)
    return number


def parse_number(text: str) -> float:
    """Return a finite number, as ``strconv.ParseFloat``; raises ValueError.

    ``Inf`` and ``NaN``, which Go also reads, can only be mistakes in a flag.
    """
    number = math.nan
    try:
        if _HEX_FLOAT.fullmatch(text):
            number = float.fromhex(text)
        elif _FLOAT.fullmatch(text):
            number = float(text)
    except (OverflowError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        msg = f"not a number: {text!r}"
        raise ValueError(msg)
    # 20 for 20.0, as Go prints it.
    return int(number) if number == int(number) else number


_QUANTITY: Final = re.compile(r"[0-9]+(\.[0-9]*)?(m|k|[KMGTPE]i?)?")
_BITS: Final[dict[str, int]] = {"int32": 32, "Level": 32}


_EMPTY: Final[Mapping[FlagType, Any]] = {
    "string": "",
    "strings": [],
    "int32Slice": [],
    "namedCertKey": [],
    "gates": {},
    "pairs": {},
    "quantity": "0",
}


def default_value(flag: Flag) -> Any:  # noqa: ANN401 - by type
    """Return the flag's default as a value of the tree."""
    if flag.default is None:
        return copy(_EMPTY[flag.type])
    return parse_flag(flag, [flag.default])


def parse_bool(text: str) -> bool:
    """Return the truth value of `text`, as Go's strconv.ParseBool does."""
    if text in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    msg = f"not a truth value: {text!r}; write true or false"
    raise ValueError(msg)


def parse_flag(flag: Flag, texts: Sequence[str]) -> Any:  # noqa: ANN401 - by type
    """Return the value of a flag as written one or more times.

    The result can be written as JSON and YAML. Raises ValueError.
    """
    if not flag.is_list:
        return _parse_one(flag.type, texts[-1])
    match flag.type:
        case "strings":
            return [part for text in texts for part in _fields(text)]
        case "int32Slice":
            return [
                parse_integer(part, 32) for text in texts for part in text.split(",")
            ]
        case "namedCertKey":
            return [part for text in texts for part in text.split(";")]
        case "gates":
            return _gates(part for text in texts for part in _split(text))
    return dict(_pair(part) for text in texts for part in _pairs_of(text))


def _fields(text: str) -> list[str]:
    """Return the fields of a line of CSV, which are not trimmed (pflag's StringSlice).

    An empty line has no fields.
    """
    try:
        return next(csv.reader([text], strict=True))
    except csv.Error as error:
        msg = f"not a list with commas: {text!r}: {error}"
        raise ValueError(msg) from error


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _pairs_of(text: str) -> list[str]:
    """Split ``a=1,b=2``; a comma before a part without ``=`` belongs to it."""
    parts: list[str] = []
    pending = ""
    for part in text.split(","):
        pending = f"{pending},{part}" if pending else part
        if "=" in pending:
            parts.append(pending.strip())
            pending = ""
    if pending.strip():
        # The rest after the last comma belongs to the value before it.
        parts = [*parts[:-1], f"{parts[-1]},{pending}"] if parts else [pending]
    return parts


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        msg = f"not name=value: {text!r}"
        raise ValueError(msg)
    return name.strip(), value.strip()


def _gates(entries: Any) -> dict[str, bool]:  # noqa: ANN401 - an iterable of texts
    gates: dict[str, bool] = {}
    prefixed = set()
    for entry in entries:
        # A component may stand before the gate: kube:SomeFeature=true.
        component, colon, rest = (part.strip() for part in entry.rpartition(":"))
        if colon and component != "kube":
            msg = f"component not registered: {component}"
            raise ValueError(msg)
        prefixed.add(bool(colon))
        name, _, text = (part.strip() for part in rest.partition("="))
        try:
            # Without an = the text is empty, which is not a truth value.
            gates[name] = parse_bool(text)
        except ValueError:
            msg = f"{entry!r} is not name=true or name=false"
            raise ValueError(msg) from None
    if len(prefixed) > 1:
        msg = (
            "set kube feature gates with default empty prefix or kube: prefix "
            "consistently, do not mix use"
        )
        raise ValueError(msg)
    return gates


def _parse_one(flag_type: FlagType, text: str) -> Any:  # noqa: ANN401 - by type
    match flag_type:
        case "bool":
            return parse_bool(text)
        case "int" | "int32":
            return parse_integer(text, _BITS.get(flag_type, 64))
        case "Level":
            return parse_level(text)
        case "float" | "float32":
            return parse_number(text)
        case "duration":
            return format_duration(parse_duration(text))
        case "ip":
            return _address(text)
        case "quantity":
            if not _QUANTITY.fullmatch(text):
                msg = f"not a quantity: {text!r}; write it as 512, 64Ki or 1M"
                raise ValueError(msg)
    return text


def _address(text: str) -> str:
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError:
        address = None
    # Go's net.ParseIP takes no zone.
    if address is None or "%" in text:
        msg = f"not an IP address: {text!r}"
        raise ValueError(msg)
    return str(address)


def check_file_value(flag_type: FlagType, value: Any) -> Any:  # noqa: ANN401 - by type
    """Return the value of a field of a file, in the form that `parse_flag` returns.

    Raises ValueError with the required type.
    """
    match flag_type:
        case "bool":
            return _of(bool, value, "true or false")
        case "int" | "int32" | "Level":
            if isinstance(value, bool):
                value = str(value)
            number = _of(int, value, "a whole number")
            return in_range(number, _BITS.get(flag_type, 64))
        case "float" | "float32":
            if isinstance(value, bool) or not isinstance(value, int | float):
                return _of(float, None if value is None else str(value), "a number")
            return parse_number(str(value))
        case "strings" | "namedCertKey":
            return [_of(str, each, "a list of strings") for each in _listed(value)]
        case "int32Slice":
            return [_of(int, each, "a list of numbers") for each in _listed(value)]
        case "gates":
            wanted = "a mapping of names to true or false"
            return {
                str(name): _of(bool, each, wanted)
                for name, each in _of(dict, value, wanted).items()
            }
        case "pairs":
            return {
                str(name): str(each)
                for name, each in _of(dict, value, "a mapping").items()
            }
    return _parse_one(flag_type, _of(str, value, "a string"))


def _of(wanted: type, value: Any, name: str) -> Any:  # noqa: ANN401 - any YAML
    if not isinstance(value, wanted):
        shown = "nothing" if value is None else repr(value)
        msg = f"must be {name}, not {shown}"
        raise ValueError(msg)  # noqa: TRY004 - callers turn it into a line
    return value


def _listed(value: Any) -> list[Any]:  # noqa: ANN401 - any YAML
    made: list[Any] = _of(list, value, "a list")
    return made
