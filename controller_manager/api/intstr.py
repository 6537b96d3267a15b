"""Int-or-percent values (k8s.io/apimachinery/pkg/util/intstr)."""

import re

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
