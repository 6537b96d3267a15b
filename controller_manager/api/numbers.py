"""Whole numbers as Go reads them, in texts that users may have written."""

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
