"""The defaults of a kind as a mapping (pkg/apis/*/v1/defaults.go)."""

from collections.abc import Mapping
from typing import Any, Final

from controller_manager.api.json_objects import JSON

Defaults = Mapping[str, Any]
"""The value of each absent field, or the defaults of the object in a field.

``{"a": 1, "b": {"c": 2}, "d[]": {"e": 3}}`` fills in ``a``, in the object ``b`` the
field ``c``, and ``e`` in each object of the list ``d``. An object that is absent stays
so, unless it is the spec. ``{}`` and lists are values: a new one for each object.
"""

_ALWAYS: Final = "spec"


def fill(obj: JSON, defaults: Defaults) -> None:
    """Fill in the fields that `obj` lacks."""
    for name, value in defaults.items():
        if name.endswith("[]"):
            for each in obj.get(name[:-2]) or ():
                fill(each, value)
        elif isinstance(value, list) or value == {}:
            obj.setdefault(name, value.copy())
        elif not isinstance(value, dict):
            obj.setdefault(name, value)
        elif name == _ALWAYS:
            fill(obj.setdefault(name, {}), value)
        elif name in obj:
            fill(obj[name], value)
