"""Numbers in Go's format, as strconv reads them for pflag."""

import math
import re
from typing import Final

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
