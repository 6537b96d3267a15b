"""The objects that the API server creates itself: their manifests and their uids."""

import uuid
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Final

import yaml

from controller_manager.api.json_objects import JSON

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def bootstrap_manifest(name: str) -> tuple[JSON, ...]:
    """Return the objects in a file of this package; callers do not change them."""
    text = (resources.files(__package__) / name).read_text(encoding="utf-8")
    return tuple(yaml.load_all(text, _LOADER))


@lru_cache(maxsize=1024)
def fixed_uid(seed: str) -> str:
    """Return a uid that follows from `seed`.

    It is not random, so the random sequence of a cluster begins with the objects of
    users.
    """
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, seed))
