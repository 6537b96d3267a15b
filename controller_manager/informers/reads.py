"""The fields that controllers read of the objects they watch; caches drop the others.

A cache keeps the union of the fields that controllers declare. The dropped fields are
the same for every object of a resource, so they are determined once, at the start. The
result is one function, which visits only those parts of an object that have something
to drop.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from sys import intern
from types import UnionType
from typing import Any, Final, NamedTuple, Union, get_args, get_origin

from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields, force_setattr

from controller_manager.api.meta import (
    AnyResource,
    OwnerReference,
    PartialMetadata,
    Projection,
)

_SEGMENT: Final = re.compile(r"([^.\[\]]+)(?:\[([^\[\]]+)\])?")
_PATH: Final = re.compile(rf"{_SEGMENT.pattern}(?:\.{_SEGMENT.pattern})*")


class Step(NamedTuple):
    """One field of a path.

    With an `entry`, the field is a list, and only entries of this type are read.
    """

    field: str
    entry: str = ""


@dataclass(frozen=True, slots=True, init=False)
class Reads:
    """The fields that one controller reads of the objects of one resource.

    Paths are relative to the object and have the names of the JSON form:
    ``spec.nodeName`` is a field with everything below it,
    ``status.containerStatuses.restartCount`` a field of each entry of a list,
    ``status.conditions[Ready]`` the entries of a list whose type is Ready, and
    ``metadata.annotations[example.com/key]`` one key of a map. Without paths,
    the whole object is read.

    Every cache keeps the fields of `PartialMetadata`, so they need not be declared.

    Raises ValueError, which names the path, if the resource's type has no such
    field. Raises ValueError for paths of a complete type: its objects may be
    written by PUT, which would delete the fields that the cache has dropped.

    >>> Reads(core_v1.PODS, "spec.nodeName", "status.conditions[Ready]").paths
    ('spec.nodeName', 'status.conditions[Ready]')
    """

    resource: AnyResource
    paths: tuple[str, ...]

    def __init__(self, resource: AnyResource, *paths: str) -> None:
        object.__setattr__(self, "resource", resource)
        object.__setattr__(self, "paths", paths)
        self.steps()

    def steps(self) -> list[tuple[Step, ...]]:
        """Return the steps of each path."""
        struct, where = self.resource.type, self.resource.group_resource
        is_projection = isinstance(struct, type) and issubclass(struct, Projection)
        if self.paths and not is_projection:
            name = getattr(struct, "__name__", str(struct))
            msg = (
                f"{_problem(self.paths[0], where)}: {name} is no projection, so its "
                "objects are cached whole; declare it without paths"
            )
            raise ValueError(msg)
        # mypy takes no type object for Hashable (its issue 11469).
        return [resolve_path(struct, path, where) for path in self.paths]  # type: ignore[arg-type]


def _problem(path: str, where: str) -> str:
    return f"cannot read {path!r} of {where}"


@cache
def resolve_path(struct: type[Struct], path: str, where: str = "") -> tuple[Step, ...]:
    """Return the steps of a path in a type.

    The result is remembered: dozens of declarations name the same paths. Raises
    ValueError, which names the path and `where` it is (the name of the type by
    default), if the path is not valid or the type has no such field.
    """
    problem = _problem(path, where or struct.__name__)
    if _PATH.fullmatch(path) is None:
        msg = f"{problem}: a path is like 'status.conditions[Ready]'"
        raise ValueError(msg)
    segments = [match.groups(default="") for match in _SEGMENT.finditer(path)]
    try:
        return tuple(_resolved(struct, segments))
    except _UnknownField as error:
        msg = f"{problem}: {error}"
        raise ValueError(msg) from None


class _UnknownField(Exception):
    """A type has no such field; the message lists its fields."""


def _resolved(struct: type[Struct], segments: Sequence[tuple[str, ...]]) -> list[Step]:
    """Return the steps of a path whose first segment is a field of `struct`."""
    (name, bracket), rest = segments[0], segments[1:]
    inner, is_list = struct_within(_field(struct, name).type)
    if bracket and inner is not None and not is_list:
        # A map; the type has some of its keys as fields.
        return [Step(name), *_resolved(inner, [(bracket, ""), *rest])]
    if bracket:
        if inner is None or "type" not in _by_wire_name(inner):
            msg = f"{struct.__name__}.{name} has no entries with a type"
            raise _UnknownField(msg)
        if rest:
            msg = f"entries of {struct.__name__}.{name} are kept whole"
            raise _UnknownField(msg)
        return [Step(name, bracket)]
    if not rest:
        return [Step(name)]
    if inner is None:
        msg = f"{struct.__name__}.{name} has no fields"
        raise _UnknownField(msg)
    return [Step(name), *_resolved(inner, rest)]


def _field(struct: type[Struct], name: str) -> FieldInfo:
    known = _by_wire_name(struct)
    if name not in known:
        msg = f"{struct.__name__} has no {name!r}, it has {', '.join(known)}"
        raise _UnknownField(msg)
    return known[name]


@cache
def fields_of(struct: type[Struct]) -> tuple[FieldInfo, ...]:
    """Return the fields of a type; msgspec evaluates all annotations each time."""
    return fields(struct)


@cache
def _by_wire_name(struct: type[Struct]) -> Mapping[str, FieldInfo]:
    return {each.encode_name: each for each in fields_of(struct)}


@cache
def struct_within(annotation: Any) -> tuple[type[Struct] | None, bool]:  # noqa: ANN401 - any type
    """Return the struct type in a field's type, and whether the field is a list of it.

    The struct type is `None` for a field without structs.
    """
    if get_origin(annotation) in (Union, UnionType):
        present = [each for each in get_args(annotation) if each is not type(None)]
        return struct_within(present[0]) if len(present) == 1 else (None, False)
    if get_origin(annotation) is tuple:
        return struct_within(get_args(annotation)[0])[0], True
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return annotation, False
    return None, False


MAX_REMEMBERED: Final = 4096
"""The number of parts of one sort that are remembered before all are forgotten."""


class OwnerTransform:
    """Makes objects of one resource share namespaces and owners.

    It changes frozen objects. This is safe because no other code has them yet.
    """

    def __init__(self) -> None:
        self._owners: dict[str, tuple[OwnerReference, ...]] = {}

    def share(self, metadata: PartialMetadata) -> None:
        """Replace parts of `metadata` by equal parts of earlier objects."""
        force_setattr(metadata, "namespace", intern(metadata.namespace))
        if owners := metadata.owner_references:
            if len(self._owners) >= MAX_REMEMBERED:
                self._owners.clear()
            known = self._owners.setdefault(owners[0].uid, owners)
            if known == owners:
                force_setattr(metadata, "owner_references", known)


Trim = Callable[[Any], None]
"""Drops fields of an object; called before any other code has the object."""

_ALWAYS_KEPT: Final[tuple[tuple[Step, ...], ...]] = tuple(
    (Step("metadata"), Step(each.encode_name)) for each in fields_of(PartialMetadata)
)
"""The fields of every object that the caches themselves need."""


@dataclass(slots=True)
class Kept:
    """The kept part of a field: all of it, some fields, or some entries of a list."""

    whole: bool = False
    fields: "dict[str, Kept]" = field(default_factory=dict)
    entries: set[str] = field(default_factory=set)

    def add(self, steps: tuple[Step, ...]) -> None:
        """Keep the field at the end of a path, too."""
        if not steps:
            self.whole = True
            return
        child = self.fields.setdefault(steps[0].field, Kept())
        if steps[0].entry:
            child.entries.add(steps[0].entry)
        else:
            child.add(steps[1:])

    def below(self, steps: tuple[Step, ...]) -> "Kept | None":
        """Return the kept part of the field at the end of a path, `None` for none."""
        if self.whole or not steps:
            return self
        child = self.fields.get(steps[0].field)
        if child is None:
            return None
        if entry := steps[0].entry:
            has_entry = child.whole or entry in child.entries
            return Kept(whole=True) if has_entry else None
        return child.below(steps[1:])

    def merge(self, steps: tuple[Step, ...], other: "Kept") -> None:
        """Keep of the field at the end of a path what `other` keeps of it."""
        if other.whole:
            self.add(steps)
            return
        kept = self
        for step in steps:
            kept = kept.fields.setdefault(step.field, Kept())
        kept.fields.update(other.fields)
        kept.entries.update(other.entries)


def trim_for(declared: Iterable[Reads], leaving: Iterable[str] = ()) -> Trim | None:
    """Return a function that drops the fields that no declaration reads.

    It leaves the fields in `leaving` as they are. All declarations must be of one
    resource. `None` if nothing is to be dropped: there are no declarations, or one of
    them reads whole objects.
    """
    declarations = list(declared)
    kept = kept_of(declarations)
    if kept is None:
        return None
    for name in leaving:
        kept.add((Step(name),))
    return _trim_struct(declarations[0].resource.type, kept)


def kept_of(declared: Iterable[Reads]) -> Kept | None:
    """Return the fields that declarations of one resource keep.

    `None` if they keep whole objects: there are no declarations, or one of them reads
    whole objects.
    """
    declarations = list(declared)
    if not declarations or not all(each.paths for each in declarations):
        return None
    kept = Kept()
    for steps in _ALWAYS_KEPT:
        kept.add(steps)
    for each in declarations:
        for steps in each.steps():
            kept.add(steps)
    return kept


def _trim_struct(struct: type[Struct], kept: Kept) -> Trim | None:
    """Return a function that trims one struct; `None` if there is nothing to drop."""
    dropped: dict[str, Any] = {}
    trims: list[Trim] = []
    for each in fields_of(struct):
        child = kept.fields.get(each.encode_name)
        if child is None:
            if (default := _default(each)) is not NODEFAULT:
                dropped[each.name] = default
        elif not child.whole and (trim := _trim_field(each, child)) is not None:
            trims.append(trim)
    if not dropped and len(trims) <= 1:
        return trims[0] if trims else None
    return _dropping(dropped, trims)


def _default(described: FieldInfo) -> Any:  # noqa: ANN401 - of any field
    if described.default_factory is not NODEFAULT:
        return described.default_factory()
    return described.default


def _dropping(dropped: dict[str, Any], trims: list[Trim]) -> Trim:
    pairs = tuple(dropped.items())

    def trim(obj: Struct) -> None:
        for name, default in pairs:
            force_setattr(obj, name, default)
        for inner in trims:
            inner(obj)

    return trim


def _trim_field(described: FieldInfo, kept: Kept) -> Trim | None:
    """Return a function that trims a field of which only a part is kept."""
    struct, is_list = struct_within(described.type)
    if struct is None:
        return None
    if not kept.fields:
        return _keeping_entries(described.name, kept.entries)
    trim = _trim_struct(struct, kept)
    if trim is None:
        return None
    if is_list:
        return _each(described.name, trim, kept.entries)
    return _inside(described.name, trim)


def _inside(name: str, trim: Trim) -> Trim:
    def trim_inside(obj: Struct) -> None:
        inner = getattr(obj, name)
        if inner is not None:
            trim(inner)

    return trim_inside


def _each(name: str, trim: Trim, kept_whole: set[str]) -> Trim:
    def trim_each(obj: Struct) -> None:
        for entry in getattr(obj, name) or ():
            if not (kept_whole and entry.type in kept_whole):
                trim(entry)

    return trim_each


def _keeping_entries(name: str, kept: set[str]) -> Trim:
    # A plain loop over a tuple of types: 0.4 µs for a pod's conditions, where a
    # generator over a set takes 0.6.
    types = tuple(sorted(kept))

    def keep_entries(obj: Struct) -> None:
        if entries := getattr(obj, name):
            read = []
            for entry in entries:
                if entry.type in types:
                    read.append(entry)  # noqa: PERF401 - see above
            force_setattr(obj, name, tuple(read))

    return keep_entries
