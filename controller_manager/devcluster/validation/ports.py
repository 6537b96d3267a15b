"""Validation of the numbers and names of ports (apimachinery validation)."""

import re
from typing import Any, Final

from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
NOT_A_PORT: Final = "must be between 1 and 65535, inclusive"
_MOST: Final = 65535
_LONGEST_NAME: Final = 15


def is_port(number: int) -> bool:
    """Tell whether a number is that of a port."""
    return 0 < number <= _MOST


def validate_port_number(number: int, field: str) -> list[Cause]:
    """Check the number of a port (IsValidPortNum)."""
    return [] if is_port(number) else [invalid(field, shown(number), NOT_A_PORT)]


def validate_port_name(name: str, field: str) -> list[Cause]:
    """Check the name of a port (IsValidPortName)."""
    return [invalid(field, shown(name), detail) for detail in _problems(name)]


def validate_port(port: Any, field: str) -> list[Cause]:
    """Check a port that is given by its number or by its name."""
    if isinstance(port, int):
        return validate_port_number(port, field)
    return validate_port_name(str(port), field)


def _problems(name: str) -> list[str]:
    """Return why a text cannot be the name of a port."""
    found = (
        (
            len(name) > _LONGEST_NAME,
            f"must be no more than {_LONGEST_NAME} characters",
        ),
        (
            not re.fullmatch(r"[-a-z0-9]+", name),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (not re.search(r"[a-z]", name), "must contain at least one letter (a-z)"),
        ("--" in name, "must not contain consecutive hyphens"),
        (
            name.startswith("-") or name.endswith("-"),
            "must not begin or end with a hyphen",
        ),
    )
    return [detail for is_so, detail in found if is_so]
