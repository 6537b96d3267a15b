"""The managers of an object's fields, and the refusal of a conflict between them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal

from .field_set import FieldSet, check_fields, paths_of, shared, union
from .field_type import shown_step

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
        msg = "operation must be `Apply` or `Update`"
        raise ValueError(msg)
    api_version = entry.get("apiVersion")
    if not api_version:
        msg = "apiVersion must not be empty"
        raise ValueError(msg)
    form = entry.get("fieldsType")
    if not form:
        msg = f"missing fieldsType in managed fields entry {number}"
        raise ValueError(msg)
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
    message = f"Apply failed with {listed}"
    return Refusal(409, "Conflict", message, {"causes": causes})


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
