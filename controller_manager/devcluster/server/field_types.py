"""How fields are merged when a configuration is applied (structured-merge-diff).

A list is replaced as a whole, is a set, or has items with keys. A map is merged field
by field, or replaced as a whole.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from controller_manager.devcluster.server.json_patch import merge_patch
from controller_manager.devcluster.server.strategic_merge import (
    MERGED_PRIMITIVES,
    merge_key,
    strategic_merge_patch,
)

JSON = dict[str, Any]
Names = tuple[str, ...]
"""The names of fields from the outside in; items of lists have none."""


class ListType(NamedTuple):
    """How a list is merged: by keys, as a set, or not at all.

    `keys` are the names of the fields that tell items apart, and their defaults.
    """

    keys: Mapping[str, Any] = {}
    is_set: bool = False

    def key_of(self, item: Any) -> JSON | None:
        """Return the keys of an item, `None` if it lacks one."""
        if not isinstance(item, dict):
            return None
        found = {
            name: item.get(name, default)
            for name, default in self.keys.items()
            if name in item or default is not None
        }
        return found if found.keys() == self.keys.keys() else None


ATOMIC: Final = ListType()


class FieldTypes:
    """The types of the fields of built-in kinds, which are known by their names."""

    def list_type(self, names: Names) -> ListType:
        """Return how a list is merged."""
        name, parent = names[-1], names[-2] if len(names) > 1 else ""
        if name in MERGED_PRIMITIVES:
            return ListType(is_set=True)
        key = merge_key(name, parent)
        return ListType({key: None}) if key else ATOMIC

    def is_atomic(self, names: Names) -> bool:
        """Tell whether a map is replaced as a whole."""
        del names
        return False

    def merged(self, current: JSON, config: JSON) -> JSON:
        """Return an object to which a configuration is applied."""
        return strategic_merge_patch(current, config)


class DeclaredFieldTypes(FieldTypes):
    """The types of fields that a schema declares."""

    def merged(self, current: JSON, config: JSON) -> JSON:
        """Return an object to which a configuration is applied."""
        result: JSON = self._merged(current, config, ())
        return result

    def _merged(self, current: Any, config: Any, names: Names) -> Any:
        if isinstance(current, dict) and isinstance(config, dict):
            if names and self.is_atomic(names):
                return config
            changed = {
                name: self._merged(current[name], each, (*names, name))
                if name in current and isinstance(each, dict | list)
                else merge_patch(None, each)
                for name, each in config.items()
                if each is not None
            }
            gone = {name for name, each in config.items() if each is None}
            kept = {name: each for name, each in current.items() if name not in gone}
            return {**kept, **changed}
        if isinstance(current, list) and isinstance(config, list) and names:
            return self._list(current, config, names)
        return config

    def _list(self, current: list[Any], config: list[Any], names: Names) -> list[Any]:
        """Merge a list: items keep their order, and new ones come last."""
        type_ = self.list_type(names)
        if type_.is_set:
            return [*current, *(each for each in config if each not in current)]
        keys = [type_.key_of(each) for each in config]
        if not type_.keys or None in keys:
            return config
        result = []
        for item in current:
            key = type_.key_of(item)
            if key in keys:
                applied = config[keys.index(key)]
                result.append(self._merged(item, applied, names))
            else:
                result.append(item)
        known = [type_.key_of(each) for each in current]
        new = (each for each, key in zip(config, keys, strict=True) if key not in known)
        return [*result, *new]
