"""Cells that volumes and claims of volumes share."""

from typing import Any, Final

JSON = dict[str, Any]

UNSET: Final = "<unset>"
"""What tables show of a field that nobody has set."""

_SHORT: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def access_modes(modes: list[str]) -> str:
    """Return modes as kubectl abbreviates them, each once and in its order."""
    return ",".join(short for mode, short in _SHORT.items() if mode in modes)


def phase_of(obj: JSON) -> str:
    """Return the phase, or that the object is being deleted."""
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return str(obj.get("status", {}).get("phase", ""))
