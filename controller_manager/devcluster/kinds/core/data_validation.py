"""Validation of the data of config maps and secrets (core/validation)."""

from collections.abc import Iterable
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.names import key_problems
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    shown,
)

LARGEST: Final = 1024 * 1024
"""The most bytes in the data of an object (MaxSecretSize)."""

_IMMUTABLE: Final = "field is immutable when `immutable` is set"


def validate_keys(keys: Iterable[str], field: str) -> list[Cause]:
    """Check the keys of data, which may become names of files."""
    return [
        invalid(f"{field}[{key}]", shown(key), why)
        for key in keys
        for why in key_problems(key)
    ]


def validate_immutable(old: JSON, new: JSON, *fields: str) -> list[Cause]:
    """Check that an object that is immutable stays so, and keeps its data."""
    if not old.get("immutable"):
        return []
    changed = [] if new.get("immutable") else ["immutable"]
    changed += [
        each for each in fields if (old.get(each) or {}) != (new.get(each) or {})
    ]
    return [forbidden_field(each, _IMMUTABLE) for each in changed]


def size_of_base64(text: str) -> int:
    """Return the number of bytes that a text in base64 stands for."""
    return len(text) * 3 // 4 - text[-2:].count("=")
