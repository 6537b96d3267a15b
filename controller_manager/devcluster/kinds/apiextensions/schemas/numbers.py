"""Numbers as Go prints them."""

from decimal import Decimal
from typing import Final

_MOST_PLAIN: Final = 6
"""The power of ten from which on Go prints an exponent."""


def go_number(value: float) -> str:
    """Return a number as the verb %v prints a float64: ``10``, ``0.5``, ``1e+06``."""
    number = Decimal(repr(float(value))).normalize()
    if not number.is_finite() or not number:
        return "0" if not number else str(float(value))
    power = number.adjusted()
    if -5 < power < _MOST_PLAIN:
        return format(number, "f")
    digits = "".join(map(str, number.as_tuple().digits))
    rest = f".{digits[1:]}" if digits[1:] else ""
    sign = "-" if number < 0 else ""
    return f"{sign}{digits[0]}{rest}e{power:+03d}"
