"""Sets of fields, in the form FieldsV1 of managedFields.

A set is a map from steps to sets: ``f:NAME`` is a field, ``k:{KEY: VALUE}`` an item of
a list with keys, ``v:VALUE`` an item of a set. A step with an empty map is a member; a
step with members inside is a member itself if it has the step ``.``. Sets are values:
no function changes a set. Upstream: structured-merge-diff, fieldpath.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec

from .field_type import FieldType

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


def with_itself(node: FieldSet | None) -> FieldSet:
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
        result[step] = with_itself(found) if declared else found
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
        msg = "fields are a map"
        raise ValueError(msg)  # noqa: TRY004 - a caller asks whether the value is good
    for step, inner in fields.items():
        kind, colon, _ = step.partition(":")
        if step != ITSELF and not (colon and kind in ("f", "k", "v", "i")):
            msg = f"unknown step {step!r}"
            raise ValueError(msg)
        check_fields(inner)


@lru_cache(_KEPT)
def _decoded(data: bytes) -> FieldSet:
    found: FieldSet = msgspec.json.decode(data)
    return found
