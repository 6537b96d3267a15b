"""Cells that volumes and volume claims share."""

from typing import Final

from controller_manager.api.json_objects import JSON

UNSET: Final = "<unset>"
"""The text that tables show for an unset field."""

_SHORT: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def access_modes(modes: list[str]) -> str:
    """Return kubectl's abbreviations of access modes, each once, in kubectl's order."""
    return ",".join(short for mode, short in _SHORT.items() if mode in modes)


def phase_of(obj: JSON) -> str:
    """Return the phase, or Terminating for an object that is being deleted."""
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    return str(obj.get("status", {}).get("phase", ""))
