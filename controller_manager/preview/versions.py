"""Resource versions of the view: the server's version and the number of a change.

The view is the server's objects with the overlay on top. A version of the view is the
server's version times 2^40, plus the number of the overlay's change. So the versions
of one watch grow with each event, whether it comes from the server or from the overlay,
and a reader that waits for the version of its own write sees it come. A version whose
number of a change is 0 is one of the server's objects, unchanged.
"""

from typing import Any, Final

_BITS: Final = 40
_MASK: Final = (1 << _BITS) - 1


def viewed(server: int, change: int = 0) -> str:
    """Return the version of the view for a version of the server and a change."""
    return str((server << _BITS) | change)


def server_version(version: str) -> str:
    """Return the server's version in a version of the view.

    An empty version and ``0`` stand for themselves, and so does a version that is no
    number.
    """
    return str(int(version) >> _BITS) if version.isdecimal() else version


def change_number(version: str) -> int:
    """Return the number of the change in a version of the view, 0 for none."""
    return int(version) & _MASK if version.isdecimal() else 0


def as_number(version: object) -> int:
    """Return a version of the server as a number; 0 if it is none."""
    return int(version) if isinstance(version, str) and version.isdecimal() else 0


def version_of(obj: dict[str, Any] | None) -> int:
    """Return the server's version of an object as a number; 0 for no object."""
    return as_number((obj or {}).get("metadata", {}).get("resourceVersion"))
