"""Whole numbers as Go reads them in texts of users, and int-or-percent values.

Upstream of the latter: apimachinery pkg/util/intstr.
"""

import re
from typing import Final

_FORM: Final = re.compile(r"([+-]?)0*([0-9]{1,19})", re.ASCII)


def parse_int(text: str, bits: int) -> int | None:
    """Return a decimal number that fits into so many bits; `None` for another text.

    Upstream: strconv.ParseInt with base 10. It takes a sign and zeros in front of the
    number. Python alone would also take spaces, underscores and digits of other
    scripts, and raise an exception for more than 4,300 digits.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    number = int(match[1] + match[2])
    return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else None


IntOrString = int | str


class IntOrStringError(ValueError):
    """A value that is neither an integer nor a percentage."""


def scaled_value(value: IntOrString, total: int, *, round_up: bool) -> int:
    """Return an integer unchanged, and a percentage as its share of `total`.

    3 of any total is 3; "25%" of 10 is 2.5: 3 rounded up and 2 rounded down.
    Raises IntOrStringError for a string that is not a percentage.
    """
    if isinstance(value, int):
        return value
    match = re.fullmatch(r"(-?\d+)%", value)
    if match is None:
        msg = f"invalid value {value!r}: neither an integer nor a percentage"
        raise IntOrStringError(msg)
    hundredths = int(match.group(1)) * total
    return -(-hundredths // 100) if round_up else hundredths // 100
