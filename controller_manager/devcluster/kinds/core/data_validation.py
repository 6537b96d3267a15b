"""The rules for the data of config maps and secrets (core/validation)."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Cause, forbidden_field

LARGEST: Final = 1024 * 1024
"""The most bytes in the data of an object (MaxSecretSize)."""


def validate_immutable(obj: JSON, path: str, old: JSON) -> Iterator[Cause]:
    """Yield the errors in an update of an object that is immutable."""
    why = "field is immutable when `immutable` is set"
    for name in ("immutable", "data", "binaryData"):
        if old.get("immutable") and (obj.get(name) or {}) != (old.get(name) or {}):
            yield forbidden_field(f"{path}{name}", why)


def size_of_base64(text: str) -> int:
    """Return the number of bytes that a text in base64 stands for."""
    return len(text) * 3 // 4 - text[-2:].count("=")
