"""Merges configurations into objects, for the managers of the objects' fields.

Upstream: sigs.k8s.io/structured-merge-diff/merge.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal

from .field_set import (
    FieldSet,
    check_fields,
    difference,
    fields_of,
    intersection,
    is_member,
    paths_of,
    shared,
    union,
    with_named_fields,
)
from .field_type import FieldType, ListType, NoKeyError, indexed, shown_step

# The managers of an object: the entries of managedFields.

MOST_UPDATERS: Final = 10
"""The number of managers with the operation Update that an object keeps."""

ANCIENT: Final = "ancient-changes"
_OPERATIONS: Final = frozenset(("Apply", "Update"))


class Manager(NamedTuple):
    """A manager: its name, its operation (Apply or Update), and the subresource.

    Updates in several versions count as several managers: `version` is the apiVersion,
    "" for Apply.
    """

    name: str
    operation: str
    subresource: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Owned:
    """The fields of a manager, in an apiVersion, and the time of its last change."""

    fields: FieldSet
    api_version: str
    time: str = ""
    entry: JSON | None = None
    """The stored entry, if the object has one."""


Owners = Mapping[Manager, Owned]


def owners_in(entries: list[JSON] | None) -> Owners:
    """Return the owners in the managedFields of a stored object."""
    return {
        _manager(entry): Owned(
            entry["fieldsV1"], entry["apiVersion"], entry.get("time", ""), entry
        )
        for entry in entries or ()
    }


def owners_given(entries: Any) -> Owners:
    """Return the owners in a request's managedFields, `None` if these are invalid."""
    try:
        return dict(_given(number, each) for number, each in enumerate(entries))
    except (ValueError, RecursionError):
        return {}


def _manager(entry: JSON) -> Manager:
    operation, api_version = entry["operation"], entry["apiVersion"]
    name, subresource = entry.get("manager", ""), entry.get("subresource", "")
    version = "" if operation == "Apply" else api_version
    return Manager(name, operation, subresource, version)


def _given(number: int, entry: Any) -> tuple[Manager, Owned]:
    if not isinstance(entry, dict) or entry.get("operation") not in _OPERATIONS:
        raise ValueError("operation must be `Apply` or `Update`")
    api_version = entry.get("apiVersion")
    if not api_version:
        raise ValueError("apiVersion must not be empty")
    form = entry.get("fieldsType")
    if not form:
        raise ValueError(f"missing fieldsType in managed fields entry {number}")
    if form != "FieldsV1":
        msg = f'invalid fieldsType "{form}" in managed fields entry {number}'
        raise ValueError(msg)
    fields = entry.get("fieldsV1") or {}
    check_fields(fields)
    return _manager(entry), Owned(fields, api_version, entry.get("time") or "")


def entries_of(owners: Owners) -> list[JSON]:
    """Return the entries that name these owners, in upstream's order."""
    entries = [
        owned.entry or _entry(manager, owned)
        for manager, owned in owners.items()
        if owned.fields
    ]
    return sorted(entries, key=_order) if len(entries) > 1 else entries


def _entry(manager: Manager, owned: Owned) -> JSON:
    entry: JSON = {"manager": manager.name} if manager.name else {}
    entry |= {"operation": manager.operation, "apiVersion": owned.api_version}
    if owned.time:
        entry["time"] = owned.time
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": shared(owned.fields)}
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def _order(entry: JSON) -> tuple[str, ...]:
    names = ("operation", "time", "manager", "apiVersion", "subresource")
    return tuple(entry.get(name, "") for name in names)


def capped(owners: Owners) -> Owners:
    """Return owners with at most ten Updates: the oldest are joined to one.

    Only owners with the same version can be joined.
    """
    updaters = [each for each in owners if each.operation == "Update"]
    if len(updaters) <= MOST_UPDATERS:
        return owners
    result = dict(owners)
    first: dict[str, Manager] = {}
    count = len(updaters)
    for manager in sorted(updaters, key=lambda each: (owners[each].time, each)):
        if count <= MOST_UPDATERS:
            break
        owned = result[manager]
        if owned.api_version not in first:
            first[owned.api_version] = manager
            continue
        bucket = Manager(ANCIENT, "Update", "", owned.api_version)
        if bucket not in result:
            result[bucket] = result.pop(first[owned.api_version])
        fields = union(owned.fields, result[bucket].fields)
        if manager != bucket:
            del result[manager]
        result[bucket] = Owned(fields, owned.api_version, owned.time)
        count -= 1
    return result


def is_reset(entries: Any) -> bool:
    """Tell whether managedFields of a request remove all managers.

    An empty list, and a list with one empty entry, remove them.
    """
    return entries in ([], [{}])


def same_but_for_time(old: Iterable[JSON], new: Iterable[JSON]) -> bool:
    """Tell whether entries differ at most in their times."""
    before, after = ([{**each, "time": ""} for each in some] for some in (old, new))
    return before == after


def with_entries(obj: JSON, entries: list[JSON]) -> JSON:
    """Return an object with these entries, or without any."""
    metadata = {
        name: each for name, each in obj["metadata"].items() if name != "managedFields"
    }
    if entries:
        metadata["managedFields"] = entries
    return {**obj, "metadata": metadata}


# The refusal of a configuration that sets fields of other managers.


def conflict_of(conflicts: Mapping[Manager, FieldSet]) -> Refusal:
    """Return the refusal that names the managers, and their fields."""
    found = {
        _described(each): ["".join(map(shown_step, path)) for path in paths_of(fields)]
        for each, fields in sorted(
            conflicts.items(), key=lambda item: _by_manager(item[0])
        )
    }
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {manager}",
            "field": path,
        }
        for manager, paths in found.items()
        for path in paths
    ]
    if len(causes) == 1:
        listed = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines: list[str] = []
        for manager, paths in found.items():
            lines.append(f"conflicts with {manager}:")
            lines += [f"- {path}" for path in paths]
        text = "\n".join(lines)
        listed = f"{len(causes)} conflicts: {text}"
    return Refusal(409, "Conflict", f"Apply failed with {listed}", {"causes": causes})


def _by_manager(manager: Manager) -> tuple[str, str, str, str]:
    """Return the sort key for upstream's order of the encoded managers."""
    return (manager.name, manager.operation, manager.version, manager.subresource)


def _described(manager: Manager) -> str:
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    if manager.operation == "Update":
        text += f" using {manager.version}"
    return text


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
