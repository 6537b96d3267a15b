"""Resource quantities such as ``100m`` and ``1Gi``."""

import re
from fractions import Fraction
from typing import Final

_SUFFIXES: Final = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}

_PATTERN: Final = re.compile(
    r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)"
)


def parse_quantity(text: str) -> Fraction:
    """Return the amount; raises ValueError if `text` is no quantity."""
    match = _PATTERN.fullmatch(text)
    if match is None:
        msg = (
            "quantities must match the regular expression "
            r"'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
        raise ValueError(msg)
    number, exponent, suffix = match.groups()
    scale = Fraction(10) ** int(exponent) if exponent else _SUFFIXES[suffix or ""]
    return Fraction(number) * scale


def format_quantity(amount: Fraction) -> str:
    """Return an amount in the shortest exact form with a plain suffix."""
    if amount.denominator == 1:
        number = amount.numerator
        for suffix in ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki"):
            unit = int(_SUFFIXES[suffix])
            if number and number % unit == 0:
                return f"{number // unit}{suffix}"
        return str(number)
    return f"{-(-amount.numerator * 1000 // amount.denominator)}m"
