"""The columns and cells of tables, the form of objects that kubectl prints (printers).

A kind's strategy has its columns and cells; this module has the shared code.
"""

from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time

Cells = list[Any]


class Column(NamedTuple):
    """A column; columns of priority 1 are shown only with ``-o wide``."""

    title: str
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""


class Printer(Protocol):
    """The table of a kind; the package ``kinds`` makes it from a text."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the table."""
        ...

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return an object's row, one cell for each column."""
        ...


NAME: Final = Column("Name")
AGE: Final = Column("Age")
CREATED_AT: Final = Column("Created At", "date")

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def human_duration(seconds: float) -> str:
    """Return an age as kubectl shows it: ``45s``, ``2m5s``, ``3h``, ``2d1h``."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    if whole < 10 * _MINUTE:
        return _two(whole // _MINUTE, "m", whole % _MINUTE, "s")
    if whole < 3 * _HOUR:
        return f"{whole // _MINUTE}m"
    if whole < 8 * _HOUR:
        return _two(whole // _HOUR, "h", whole % _HOUR // _MINUTE, "m")
    if whole < 2 * _DAY:
        return f"{whole // _HOUR}h"
    if whole < 8 * _DAY:
        return _two(whole // _DAY, "d", whole % _DAY // _HOUR, "h")
    if whole < 2 * 365 * _DAY:
        return f"{whole // _DAY}d"
    return _two(whole // (365 * _DAY), "y", whole % (365 * _DAY) // _DAY, "d")


def _two(major: int, unit: str, minor: int, minor_unit: str) -> str:
    return f"{major}{unit}{minor}{minor_unit}" if minor else f"{major}{unit}"


def age(obj: JSON, now: datetime) -> str:
    """Return how long ago an object was created, as kubectl shows it."""
    created = obj["metadata"].get("creationTimestamp")
    if not created:
        return UNKNOWN
    return human_duration((now - parse_time(created)).total_seconds())
