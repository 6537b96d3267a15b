"""The manifests of objects that the API server creates itself."""

from functools import cache
from importlib import resources
from typing import Any, Final

import yaml

from controller_manager.api.json_objects import JSON

_LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def bootstrap_manifest(package: str, name: str) -> tuple[JSON, ...]:
    """Return the objects in a file of a package; callers do not change them."""
    text = (resources.files(package) / name).read_text(encoding="utf-8")
    return tuple(yaml.load_all(text, _LOADER))
