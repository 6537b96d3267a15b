"""Declarations of the fields that controllers read of the objects they watch.

A cache keeps the union of the declared fields and drops the others; see
`informers.trimming`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Any, Final, NamedTuple, Union, get_args, get_origin

from msgspec import Struct
from msgspec.structs import FieldInfo, fields

from controller_manager.api.meta import AnyResource, Projection

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
    """

    resource: AnyResource
    paths: tuple[str, ...]

    def __init__(self, resource: AnyResource, *paths: str) -> None:
        object.__setattr__(self, "resource", resource)
        object.__setattr__(self, "paths", paths)
        self.steps()

    def steps(self) -> list[tuple[Step, ...]]:
        """Return the steps of each path."""
        if self.paths and not _is_projection(self.resource.type):
            name = getattr(self.resource.type, "__name__", str(self.resource.type))
            msg = (
                f"{self._problem(self.paths[0])}: {name} is no projection, so its "
                "objects are cached whole; declare it without paths"
            )
            raise ValueError(msg)
        struct, where = self.resource.type, self.resource.group_resource
        # mypy takes no type object for Hashable (its issue 11469).
        return [resolve_path(struct, path, where) for path in self.paths]  # type: ignore[arg-type]

    def _problem(self, path: str) -> str:
        return _problem(path, self.resource.group_resource)


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
    """Return the fields of a type by their names in JSON."""
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


def _is_projection(object_type: Any) -> bool:  # noqa: ANN401 - any type
    return isinstance(object_type, type) and issubclass(object_type, Projection)
