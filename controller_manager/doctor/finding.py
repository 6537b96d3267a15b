"""The finding of a check: one line, with the mend."""

from enum import StrEnum

from msgspec import Struct


class Level(StrEnum):
    """The severity of a finding: only an error fails the whole examination."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


class Finding(Struct, frozen=True):
    """One line of the report.

    `message` is one line, and so is `mend`, which says what to do; it is empty if
    there is nothing to do.
    """

    level: Level
    message: str
    mend: str = ""


def ok(message: str) -> Finding:
    """Return a finding that all is well."""
    return Finding(Level.OK, message)


def warning(message: str, mend: str = "") -> Finding:
    """Return a finding that does not keep the manager from working."""
    return Finding(Level.WARNING, message, mend)


def error(message: str, mend: str = "") -> Finding:
    """Return a finding because of which something does not work."""
    return Finding(Level.ERROR, message, mend)
