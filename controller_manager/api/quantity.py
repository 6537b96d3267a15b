"""Quantities such as ``100m`` and ``1Gi`` (apimachinery pkg/api/resource)."""

import re
from enum import StrEnum
from functools import lru_cache
from typing import Final

from msgspec import Struct

_NANOS: Final = 10**9
_MILLI_NANOS: Final = 10**6
_NANO_SCALE: Final = -9
_MOST_BINARY: Final = (2**63 - 1) * _NANOS
"""A quantity that is written with a binary suffix is capped here."""

_MOST_DIGITS: Final = 1000
"""The most digits, and the largest power of ten, that are computed with."""

_MOST_EXPONENT: Final = 2**31 - 1

_FAST_DIGITS: Final = 18
_FAST_BINARY_DIGITS: Final = 14

_FORM: Final = re.compile(
    r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII
)
_EXPONENT: Final = re.compile(r"[eE]([-+]?[0-9]+)", re.ASCII)

_WRONG_FORM: Final = (
    "quantities must match the regular expression "
    r"'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_WRONG_NUMBER: Final = "unable to parse numeric part of quantity"
_WRONG_SUFFIX: Final = "unable to parse quantity's suffix"

_DECIMAL_SCALES: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_DECIMAL_SUFFIXES: Final = {scale: name for name, scale in _DECIMAL_SCALES.items()}
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BINARY_SCALES: Final = {
    name: 10 * power for power, name in enumerate(_BINARY_SUFFIXES) if name
}


class QuantityError(ValueError):
    """A text that is no quantity; the message is the API server's."""


class Format(StrEnum):
    """The form in which a quantity is printed."""

    DECIMAL_SI = "DecimalSI"
    """12M is 12 * 10^6."""

    BINARY_SI = "BinarySI"
    """12Mi is 12 * 2^20."""

    DECIMAL_EXPONENT = "DecimalExponent"
    """12e6 is 12 * 10^6."""


class Quantity(Struct, frozen=True, gc=False, eq=False):
    """An exact amount, and the form in which it is printed.

    The smallest unit is a billionth; smaller amounts were rounded up, away from zero,
    when they were parsed. Quantities are equal, and ordered, by their amount alone:
    ``1Ki`` equals ``1024``. ``str`` returns the canonical form: no fraction, no digit
    lost, the largest suffix possible.

    A sum has the format of its first operand, or of the second if the first is zero.
    """

    nanos: int = 0
    format: Format = Format.DECIMAL_SI
    text: str = ""
    """The text that was parsed, if upstream prints it again as it is.

    That is a canonical text, and by upstream's test also a text such as ``+1``,
    ``0100m`` or ``1.125``.
    """

    @classmethod
    def of(cls, value: int, form: Format = Format.DECIMAL_SI) -> "Quantity":
        """Return a whole number as a quantity (NewQuantity)."""
        return cls(value * _NANOS, form)

    @classmethod
    def of_milli(cls, value: int, form: Format = Format.DECIMAL_SI) -> "Quantity":
        """Return a number of thousandths as a quantity (NewMilliQuantity)."""
        return cls(value * _MILLI_NANOS, form)

    @property
    def value(self) -> int:
        """The amount, rounded away from zero to a whole number (Value)."""
        return _rounded(self.nanos, _NANOS)

    @property
    def milli_value(self) -> int:
        """The amount in thousandths, rounded away from zero (MilliValue)."""
        return _rounded(self.nanos, _MILLI_NANOS)

    @property
    def is_zero(self) -> bool:
        """Tell whether the amount is zero."""
        return not self.nanos

    def __add__(self, other: "Quantity") -> "Quantity":
        """Return the sum."""
        return Quantity(self.nanos + other.nanos, self._format_with(other))

    def __sub__(self, other: "Quantity") -> "Quantity":
        """Return the difference."""
        return Quantity(self.nanos - other.nanos, self._format_with(other))

    def __mul__(self, factor: int) -> "Quantity":
        """Return the amount times a whole number."""
        return Quantity(self.nanos * factor, self.format)

    def __neg__(self) -> "Quantity":
        """Return the amount with the other sign."""
        return Quantity(-self.nanos, self.format)

    def __eq__(self, other: object) -> bool:
        """Compare amounts, not formats."""
        if not isinstance(other, Quantity):
            return NotImplemented
        return self.nanos == other.nanos

    def __ne__(self, other: object) -> bool:
        """Compare amounts; Struct has a method of its own, which would be inherited."""
        if not isinstance(other, Quantity):
            return NotImplemented
        return self.nanos != other.nanos

    def __hash__(self) -> int:
        """Return the hash of the amount."""
        return hash(self.nanos)

    def __lt__(self, other: "Quantity") -> bool:
        """Compare amounts."""
        return self.nanos < other.nanos

    def __le__(self, other: "Quantity") -> bool:
        """Compare amounts."""
        return self.nanos <= other.nanos

    def __gt__(self, other: "Quantity") -> bool:
        """Compare amounts."""
        return self.nanos > other.nanos

    def __ge__(self, other: "Quantity") -> bool:
        """Compare amounts."""
        return self.nanos >= other.nanos

    def __str__(self) -> str:
        """Return the canonical form, as the API server prints it (String)."""
        return self.text or canonical(self.nanos, self.format)

    def _format_with(self, other: "Quantity") -> Format:
        return self.format if self.nanos else other.format


ZERO: Final = Quantity()


def _rounded(nanos: int, unit: int) -> int:
    """Return the number of units, rounded away from zero."""
    return -(-nanos // unit) if nanos > 0 else nanos // unit


def canonical(nanos: int, form: Format) -> str:
    """Return the canonical form of a number of billionths (CanonicalizeBytes).

    A binary format is used only for whole numbers from 1024 on. Where a number is too
    large for the suffixes, upstream's newest version prints an exponent; earlier ones
    lost the magnitude.
    """
    if not nanos:
        return "0"
    whole, fraction = divmod(nanos, _NANOS)
    if form is Format.BINARY_SI:
        if fraction or abs(whole) < 1024:  # noqa: PLR2004 - the first binary unit
            form = Format.DECIMAL_SI
        else:
            return _binary(whole)
    return _decimal(nanos, _NANO_SCALE, form)


def _binary(whole: int) -> str:
    power, number = 0, whole
    while number % 1024 == 0:
        power, number = power + 1, number // 1024
    if power < len(_BINARY_SUFFIXES):
        return f"{number}{_BINARY_SUFFIXES[power]}"
    return _decimal(whole, 0, Format.DECIMAL_EXPONENT)


def _decimal(number: int, scale: int, form: Format) -> str:
    """Print number * 10^scale; the scale is a multiple of three."""
    while number % 1000 == 0:
        number, scale = number // 1000, scale + 3
    if form is Format.DECIMAL_SI and scale in _DECIMAL_SUFFIXES:
        return f"{number}{_DECIMAL_SUFFIXES[scale]}"
    return f"{number}e{scale}" if scale else str(number)


@lru_cache(maxsize=4096)
def parse_quantity(text: str) -> Quantity:
    """Return the quantity that a text stands for (ParseQuantity).

    An amount smaller than a billionth is rounded up, one with a binary suffix is
    capped at 2^63 - 1. A power of ten above 1000 counts as 1000, so that no user can
    make the process compute with a number that fills its memory.

    Results are cached: a recount of a quota reads four quantities of each pod, few of
    which differ. Of 100,000 pods that would take 0.9 s.

    Raises QuantityError, with the API server's message, if `text` is no quantity.
    """
    match = _FORM.fullmatch(text)
    if match is None or not text:
        raise QuantityError(_WRONG_FORM)
    sign, number, fraction, suffix = match.groups()
    number, fraction = number.lstrip("0") or "0", fraction or ""
    form, scale = _suffix(suffix)
    if max(len(number), len(fraction)) > _MOST_DIGITS:
        raise QuantityError(_WRONG_NUMBER)
    digits = number + fraction
    if _is_fast(number, fraction, form, scale):
        keeps_text = _prints_as_written(digits, len(fraction), form, scale)
    else:
        keeps_text = False
    nanos, form = _amount(int(digits), len(fraction), form, scale)
    kept = text if keeps_text or text == "0" else ""
    return Quantity(-nanos if sign == "-" else nanos, form, kept)


def _suffix(suffix: str) -> tuple[Format, int]:
    """Return the format of a suffix, and its power of ten or of two."""
    if suffix in _DECIMAL_SCALES:
        return Format.DECIMAL_SI, _DECIMAL_SCALES[suffix]
    if suffix in _BINARY_SCALES:
        return Format.BINARY_SI, _BINARY_SCALES[suffix]
    match = _EXPONENT.fullmatch(suffix)
    if match is None or len(suffix) > _MOST_DIGITS:
        raise QuantityError(_WRONG_SUFFIX)
    exponent = int(match[1])
    if abs(exponent) > _MOST_EXPONENT:
        raise QuantityError(_WRONG_SUFFIX)
    return Format.DECIMAL_EXPONENT, exponent


def _is_fast(number: str, fraction: str, form: Format, scale: int) -> bool:
    """Tell whether upstream parses the number as a 64 bit integer: if it is short."""
    if form is Format.BINARY_SI:
        room = _FAST_BINARY_DIGITS - len(number) - scale * 3 // 10
        return room >= 0 and not fraction
    fits = len(number) + len(fraction) <= _FAST_DIGITS
    return fits and scale - len(fraction) >= _NANO_SCALE


def _prints_as_written(digits: str, places: int, form: Format, scale: int) -> bool:
    """Tell whether upstream takes a text for canonical, by a look at its digits."""
    if form is Format.BINARY_SI:
        return int(digits) % 8 != 0
    canonical_scale = (scale - places) % 3 == 0
    return canonical_scale and not digits.endswith("000") and digits[0] != "0"


def _amount(unscaled: int, places: int, form: Format, scale: int) -> tuple[int, Format]:
    """Return the amount in billionths, rounded and capped, and its format."""
    if form is not Format.BINARY_SI:
        power = min(scale, _MOST_DIGITS) - places - _NANO_SCALE
        if power >= 0:
            return unscaled * 10**power, form
        # No number has more digits than that: the rest rounds up to 1.
        unit = 10 ** min(-power, 2 * _MOST_DIGITS + 1)
        return _rounded(unscaled, unit), form
    nanos = _rounded((unscaled << scale) * _NANOS, 10**places)
    if 0 < nanos < _NANOS:
        form = Format.DECIMAL_SI
    return min(nanos, _MOST_BINARY), form
