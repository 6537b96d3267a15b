"""Merges configurations into objects, and removes fields from objects."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from controller_manager.api.json_objects import JSON

from .entries import Owned
from .field_set import (
    FieldSet,
    difference,
    fields_of,
    intersection,
    is_member,
    union,
    with_named_fields,
)
from .field_type import FieldType, ListType, NoKeyError, indexed

# Merges configurations into objects, and removes fields from objects.


def merged(current: JSON, config: JSON, type_: FieldType) -> JSON:
    """Return an object to which a configuration is applied (Merge)."""
    result: JSON = _merged(current, config, type_)
    return result


def _merged(current: Any, config: Any, type_: FieldType) -> Any:
    if isinstance(current, dict) and (map_ := type_.map_of(config)):
        result = dict(current)
        for name, each in config.items():
            known = result.get(name)
            merges = isinstance(each, dict | list) and known is not None
            result[name] = _merged(known, each, map_.of(name)) if merges else each
        return result
    if isinstance(current, list) and (list_ := type_.list_of(config)):
        return _merged_items(current, config, list_)
    return config


def _merged_items(current: list[Any], config: list[Any], type_: ListType) -> list[Any]:
    """Merge the items of a list by their keys.

    Items of both follow the order of the configuration, and items of the object alone
    keep their place between them.
    """
    known, wanted = indexed(current, type_), indexed(config, type_)
    shared = [step for step in wanted if step in known]
    left, right, result = list(known), list(wanted), []
    while left or right:
        if left and right and left[0] == right[0]:
            shared = shared[1:]
            left.pop(0)
        elif left and right and left[0] in wanted and left[0] not in shared[:1]:
            left.pop(0)  # The item stands at its position in the configuration.
            continue
        elif left and left[0] not in wanted:
            result += known[left.pop(0)]
            continue
        elif not right:
            left.pop(0)
            continue
        step = right.pop(0)
        shared = shared[1:] if shared[:1] == [step] else shared
        item, before = wanted[step][-1], known.get(step, [])
        # Items with the same key are not merged: they are replaced.
        is_one = len(before) == 1
        result.append(_merged(before[0], item, type_.items) if is_one else item)
    return result


def without(value: JSON, fields: FieldSet, type_: FieldType) -> JSON:
    """Return an object without these fields (RemoveItems).

    A map or list that becomes empty is removed, too.
    """
    result: JSON = _without(value, fields, type_) or {}
    return result


def _without(value: Any, fields: FieldSet, type_: FieldType) -> Any:
    if map_ := type_.map_of(value):
        found: JSON = {}
        for name, each in value.items():
            node = fields.get(f"f:{name}")
            if node is None:
                found[name] = each
            elif not is_member(node):
                inner = _without(each, node, map_.of(name))
                if inner is not None:
                    found[name] = inner
        return found or None
    if list_ := type_.list_of(value):
        return _without_items(value, fields, list_) or None
    return value


def _without_items(items: list[Any], fields: FieldSet, type_: ListType) -> list[Any]:
    found = []
    for item in items:
        try:
            node = fields.get(type_.step(item))
        except NoKeyError:
            node = None
        if node is None:
            found.append(item)
        elif not is_member(node):
            found.append(_without(item, node, type_.items))
    return found


# Removes fields from an object that a configuration no longer has.


class Version(NamedTuple):
    """One version of a kind: the type of its objects, and the conversions.

    `shown` makes an object of this version from a stored one, `stored` the reverse.
    """

    api_version: str
    type: FieldType
    shown: Callable[[JSON], JSON]
    stored: Callable[[JSON], JSON]

    def fields(self, obj: JSON) -> FieldSet:
        """Return the fields of an object, and those that have fields themselves."""
        return self.named(fields_of(obj, self.type))

    def named(self, fields: FieldSet) -> FieldSet:
        """Return a set with the declared fields that have members inside of them."""
        return with_named_fields(fields, self.type)


class Pruning(NamedTuple):
    """Removes fields that one manager had applied and no manager owns now.

    `version` is that of the objects; `find` returns other versions of the kind.
    """

    version: Version
    find: Callable[[str], Version | None]

    def pruned(self, merged: JSON, last: Owned, owners: Iterable[Owned]) -> JSON:
        """Return `merged` without fields that only the `last` configuration had.

        `owners` are all others, and the manager with its new configuration.
        """
        version = self._of(last.api_version)
        if version is None or not last.fields:
            return merged
        before = self._converted(merged, self.version, version)
        named = version.named(last.fields)
        found = without(before, named, version.type)
        found = self._with_owned(before, found, version, owners)
        gone = difference(version.fields(before), version.fields(found))
        found = without(before, intersection(gone, named), version.type)
        return self._converted(found, version, self.version)

    def _with_owned(
        self, before: JSON, found: JSON, version: Version, owners: Iterable[Owned]
    ) -> JSON:
        """Return `found` with the fields of `before` that a manager owns."""
        managed: dict[str, FieldSet] = {version.api_version: {}}
        for owned in owners:
            known = managed.get(owned.api_version, {})
            managed[owned.api_version] = union(known, owned.fields)
        for name, fields in managed.items():
            other = self._of(name)
            if other is None:
                continue
            was = self._converted(before, version, other)
            now = self._converted(found, version, other)
            kept = union(other.fields(now), other.named(fields))
            now = without(was, difference(other.fields(was), kept), other.type)
            found = self._converted(now, other, version)
        return found

    def _of(self, api_version: str) -> Version | None:
        if api_version == self.version.api_version:
            return self.version
        return self.find(api_version)

    def _converted(self, obj: JSON, version: Version, other: Version) -> JSON:
        if version.api_version == other.api_version:
            return obj
        return other.shown(version.stored(obj))
