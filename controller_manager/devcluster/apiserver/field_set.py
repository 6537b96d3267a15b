"""Sets of fields, in the form FieldsV1 of managedFields, and how values differ."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from controller_manager.api.json_objects import JSON

from .field_type import FieldType, ListType, MapType, indexed

# Sets of fields, in the form FieldsV1 of managedFields.

FieldSet = dict[str, Any]
Path = tuple[str, ...]

ITSELF: Final = "."
EMPTY: Final[FieldSet] = {}
_MEMBER: Final[FieldSet] = {ITSELF: {}}
_KEPT: Final = 4096
"""The size of the cache of encoded sets; most objects of a kind have equal sets."""


def is_member(node: FieldSet) -> bool:
    """Tell whether a step is a member, given the set inside of it."""
    return not node or ITSELF in node


def _with_itself(node: FieldSet | None) -> FieldSet:
    """Return the set inside of a step that is a member."""
    return {ITSELF: {}, **node} if node else {}


def union(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the members of both sets."""
    if not other or one is other:
        return one
    if not one:
        return other
    return _union(one, other)


def _union(one: FieldSet, other: FieldSet) -> FieldSet:
    result = dict(one)
    for step, node in other.items():
        known = result.get(step)
        if known is None:
            result[step] = node
        elif known is not node:
            result[step] = _simple(_union(known or _MEMBER, node or _MEMBER)) or {}
    return result


def difference(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the members of `one` that are not in `other`; `one` if these are all."""
    return _difference(one, other) or {} if one and other else one


def _difference(one: FieldSet, other: FieldSet) -> FieldSet | None:
    """Return a set, `None` if it is empty."""
    result: FieldSet = {}
    is_changed = False
    for step, node in one.items():
        less = other.get(step)
        if less is None:
            result[step] = node
            continue
        left = None
        if step != ITSELF:
            inner = node or _MEMBER
            found = _difference(inner, less or _MEMBER)
            left = node if found is inner else _simple(found)
        is_changed = is_changed or left is not node
        if left is not None:
            result[step] = left
    return result if is_changed else one


def intersection(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the members that both sets have."""
    result: FieldSet = {}
    for step, node in one.items():
        also = other.get(step)
        if also is None:
            continue
        if step == ITSELF:
            result[step] = node
            continue
        inner = _simple(intersection(node or _MEMBER, also or _MEMBER))
        if inner is not None:
            result[step] = inner
    return result


def outside_of(one: FieldSet, other: FieldSet) -> FieldSet:
    """Return the members of `one` that are not in `other` or inside of its members.

    Upstream: RecursiveDifference.
    """
    result: FieldSet = {}
    for step, node in one.items():
        less = other.get(step)
        if less is None:
            result[step] = node
        elif step != ITSELF and not is_member(less):
            left = _simple(outside_of(node or _MEMBER, less))
            if left is not None:
                result[step] = left
    return result


def with_named_fields(fields: FieldSet, type_: FieldType) -> FieldSet:
    """Return a set with the declared fields that have members inside of them.

    Upstream: EnsureNamedFieldsAreMembers.
    """
    result: FieldSet = {}
    for step, node in fields.items():
        if not node:
            result[step] = node
            continue
        inner = _type_at(step, type_)
        found = with_named_fields(node, inner)
        declared = step[:2] == "f:" and type_.map and step[2:] in type_.map.fields
        result[step] = _with_itself(found) if declared else found
    return result


def _type_at(step: str, type_: FieldType) -> FieldType:
    if step[:2] == "f:":
        return type_.map.of(step[2:]) if type_.map else type_
    return type_.list.items if type_.list else type_


def paths_of(fields: FieldSet, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of the members, each before those inside of it."""
    members = [step for step in fields if step != ITSELF and is_member(fields[step])]
    for step in sorted(members):
        yield (*path, step)
    for step in sorted(fields):
        if fields[step]:
            yield from paths_of(fields[step], (*path, step))


def _simple(node: FieldSet | None) -> FieldSet | None:
    """Return the set inside of a step in its simplest form, `None` if it is empty."""
    if not node:
        return None
    return {} if len(node) == 1 and ITSELF in node else node


def shared(fields: FieldSet) -> FieldSet:
    """Return a set in upstream's order; equal sets share one object, to save memory."""
    return _decoded(msgspec.json.encode(fields, order="sorted"))


def check_fields(fields: Any) -> None:
    """Raise ValueError if a value of a request is not a set of fields."""
    if not isinstance(fields, dict):
        raise ValueError("fields are a map")  # noqa: TRY004 - a caller asks whether the value is good
    for step, inner in fields.items():
        kind, colon, _ = step.partition(":")
        if step != ITSELF and not (colon and kind in ("f", "k", "v", "i")):
            raise ValueError(f"unknown step {step!r}")
        check_fields(inner)


@lru_cache(_KEPT)
def _decoded(data: bytes) -> FieldSet:
    found: FieldSet = msgspec.json.decode(data)
    return found


# The fields of a value, and those in which two values differ.

_SCALARS: Final = frozenset((str, int, bool, float, type(None)))
_COLLECTIONS: Final = (dict, list)


class Comparison(NamedTuple):
    """The fields in which a value differs from an older one."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet

    @property
    def changed(self) -> FieldSet:
        """The fields that have another value now, or are new."""
        return union(self.modified, self.added)

    def outside_of(self, fields: FieldSet) -> "Comparison":
        """Return the comparison without these fields, and all inside of them."""
        return Comparison(*(outside_of(each, fields) for each in self))


SAME: Final = Comparison(EMPTY, EMPTY, EMPTY)


def fields_of(value: JSON, type_: FieldType) -> FieldSet:
    """Return the fields that a configuration names (ToFieldSet).

    A merged map or list is not a member of the set itself, unless it is an empty map or
    not declared.
    """
    return _fields(value, type_) or {}


def _fields(value: Any, type_: FieldType) -> FieldSet | None:
    """Return the set of a value and the fields inside of it, `None` if it is empty."""
    if map_ := type_.map_of(value):
        return _fields_of_map(value, map_) or None
    if list_ := type_.list_of(value):
        return _fields_of_list(value, list_) or None
    return {}


def _fields_of_map(value: JSON, type_: MapType) -> FieldSet:
    found: FieldSet = {}
    for name, each in value.items():
        declared = type_.fields.get(name)
        inner = _fields(each, declared or type_.of(name))
        if declared is None or each == {}:
            inner = _with_itself(inner)
        if inner is not None:
            found[f"f:{name}"] = inner
    return found


def _fields_of_list(value: list[Any], type_: ListType) -> FieldSet:
    found: FieldSet = {}
    for step, items in indexed(value, type_).items():
        # If several items have one key, the manager owns only the key.
        inner = _fields(items[0], type_.items) if len(items) == 1 else None
        found[step] = _with_itself(inner)
    return found


def _whole(value: Any, type_: FieldType) -> FieldSet:
    """Return the set of a new or removed value and all fields inside of it."""
    if not value:
        return EMPTY
    if map_ := type_.map_of(value):
        found: FieldSet = {ITSELF: EMPTY}
        of = map_.of
        for name, each in value.items():
            is_leaf = each.__class__ in _SCALARS
            found["f:" + name] = EMPTY if is_leaf else _whole(each, of(name))
        return found
    if list_ := type_.list_of(value):
        return {ITSELF: EMPTY, **_whole_items(value, list_)}
    return EMPTY


def _whole_items(value: list[Any], type_: ListType) -> FieldSet:
    return {
        step: _whole_item(items, type_.items)
        for step, items in indexed(value, type_).items()
    }


def _whole_item(items: list[Any], type_: FieldType) -> FieldSet:
    """Return the set of the items with one key; that of several is only the key."""
    return _whole(items[0], type_) if len(items) == 1 else {}


def fields_of_new(value: JSON, type_: FieldType) -> FieldSet:
    """Return the changed fields of a value compared with an empty one.

    The result is that of `compare`, which collects the differences of two values in
    more steps: each request that creates an object needs it.
    """
    found: FieldSet = {}
    if (map_ := type_.map_of(value)) is None:
        return found
    always = map_.always
    for name, each in value.items():
        if name not in always:
            is_leaf = each.__class__ in _SCALARS
            found["f:" + name] = EMPTY if is_leaf else _whole(each, map_.of(name))
            continue
        if not each and each.__class__ in _COLLECTIONS:
            continue
        inner = _changed_inside(each, map_.of(name))
        if inner is None:
            found["f:" + name] = EMPTY
        elif inner:
            found["f:" + name] = inner
    return found


def _changed_inside(value: Any, type_: FieldType) -> FieldSet | None:
    """Return the changed fields in a value that was empty, `None` if it is one."""
    if value and type_.map_of(value):
        return fields_of_new(value, type_)
    if value and (list_ := type_.list_of(value)):
        return _whole_items(value, list_)
    return None


def compare(old: JSON, new: JSON, type_: FieldType) -> Comparison:
    """Return the differences of two objects (Compare)."""
    return _compared(old, new, type_) or SAME


def _compared(old: Any, new: Any, type_: FieldType) -> Comparison | None:
    """Return the differences inside of a value, `None` if it is one field."""
    if not old and not new:
        return None
    some = old if new is None else new
    if (map_ := type_.map_of(some)) and isinstance(old, dict | None):
        return _compare_maps(old or {}, new or {}, map_)
    if (list_ := type_.list_of(some)) and isinstance(old, list | None):
        return _compare_lists(old or [], new or [], list_)
    return None


def _descend(
    found: Comparison, step: str, old: Any, new: Any, type_: FieldType
) -> None:
    """Add the differences of the values at a step to those that are `found`."""
    if old == new and type(old) is type(new):
        return
    if (inner := _compared(old, new, type_)) is None:
        found.modified[step] = {}
        return
    for fields, some in zip(found, inner, strict=True):
        if some:
            fields[step] = some


def _compare_maps(old: JSON, new: JSON, type_: MapType) -> Comparison:
    found = Comparison({}, {}, {})
    for name, after in new.items():
        if name in old:
            if (before := old[name]) is not after:
                _descend(found, f"f:{name}", before, after, type_.of(name))
        elif name in type_.always:
            nothing: Any = [] if isinstance(after, list) else {}
            _descend(found, f"f:{name}", nothing, after, type_.of(name))
        else:
            found.added[f"f:{name}"] = _whole(after, type_.of(name))
    for name, before in old.items():
        if name not in new:
            if name in type_.always:
                rest: Any = [] if isinstance(before, list) else {}
                _descend(found, f"f:{name}", before, rest, type_.of(name))
            else:
                found.removed[f"f:{name}"] = _whole(before, type_.of(name))
    return found


def _compare_lists(old: list[Any], new: list[Any], type_: ListType) -> Comparison:
    found, of = Comparison({}, {}, {}), type_.items
    before, after = indexed(old, type_), indexed(new, type_)
    for step, items in after.items():
        known = before.pop(step, [])
        if len(items) == 1 and len(known) == 1:
            _descend(found, step, known[0], items[0], of)
        elif len(items) > 1 and len(known) > 1:
            if known != items:
                found.modified[step] = {}
        else:
            found.added[step] = _whole_item(items, of)
            if known:
                found.removed[step] = _whole_item(known, of)
    for step, items in before.items():
        found.removed[step] = _whole_item(items, of)
    return found
