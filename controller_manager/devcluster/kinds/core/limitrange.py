"""LimitRange: limits for the requests of containers in a namespace."""

from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.server.rest.strategy import Strategy

from .limitrange_validation import CONTAINER, LIMIT_RANGE


class LimitRangeStrategy(Strategy):
    """Absent fields of an item get their values from the other fields."""

    rules: ClassVar = LIMIT_RANGE

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the defaults for containers: from max, then default, then min."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("limits", None)  # Go writes the field also when it is absent
        for item in spec["limits"] or ():
            if item.get("type") == CONTAINER:
                _fill_in(item, "default", "max")
                _fill_in(item, "defaultRequest", "default")
                _fill_in(item, "defaultRequest", "min")


def _fill_in(item: JSON, field: str, source: str) -> None:
    if found := {**(item.get(source) or {}), **(item.get(field) or {})}:
        item[field] = found


KIND: Final = kind_of("v1", "limitranges", LimitRangeStrategy())
