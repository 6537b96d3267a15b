"""Views: the objects of a cache with only the fields that one controller has declared.

A cache keeps the union of the fields that all enabled controllers declare. So a
controller that forgot a declaration finds the field as long as another controller
declares it, or as long as another one reads whole objects, and an empty field
otherwise. The strict mode finds such a controller: it gets views of the cached
objects, and to read an undeclared field of a view raises UndeclaredReadError.

The strict mode is for tests: it copies the declared parts of each object once for each
controller. Compare client-go's cache mutation detector.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import FieldInfo, force_setattr

from controller_manager.api.meta import APIStruct
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.reads import Step, fields_of, struct_within
from controller_manager.informers.trimming import Kept

View = Callable[[Any], Any]
"""Returns a copy of an object that has only the declared fields."""

_CONSTANT: Final = ("apiVersion", "kind")
"""The fields that all objects of a type have in common."""

_ENTRY: Final = "the entry of type"

_UNSET: Final = "is unset"
"""In the AttributeError of msgspec for comparing or encoding a struct with such fields.
"""


class UndeclaredReadError(Exception):
    """A controller has read a field of a cached object that it did not declare.

    The text names the type, the field and the remedy.
    """


def view_of(struct: type[Struct], kept: Kept | None) -> View:
    """Return the view that shows only the kept fields; `None` keeps whole objects."""
    view = None if kept is None else _view_of_struct(struct, kept)
    return view if view is not None else lambda obj: obj


def kept_of_metadata(names: Iterable[str]) -> Kept:
    """Return the declaration of a controller that reads only these metadata fields."""
    kept = Kept()
    metadata = kept.fields["metadata"] = Kept()
    metadata.fields = {name: Kept(whole=True) for name in names}
    return kept


def view_of_parts(
    struct: type[Struct], kept: Kept | None, depends_on: DependsOn
) -> View:
    """Return the view of a function that may read only the parts on which it depends.

    It shows no field that the controller does not declare. Raises UndeclaredReadError
    for a part of which the controller declares nothing: the cache may have dropped it,
    so that it would never change.
    """
    of_function = Kept()
    for name in _CONSTANT:
        if any(each.encode_name == name for each in fields_of(struct)):
            of_function.add((Step(name),))
    for path, steps in depends_on.readable(struct).items():
        found = Kept(whole=True) if kept is None else kept.below(steps)
        if found is not None:
            of_function.merge(steps, found)
        elif path in (*depends_on.parts, *depends_on.reading):
            raise _undeclared(struct.__name__, path)
    return view_of(struct, of_function)


def forbid_undeclared_reads() -> None:
    """Make the missing fields of views raise UndeclaredReadError in this process.

    Without a view no field is missing, so other objects stay as they are.
    """
    APIStruct.__getattr__ = _missing  # type: ignore[attr-defined]


def _missing(obj: Struct, name: str) -> Any:  # noqa: ANN401 - never returns
    if name in type(obj).__struct_fields__:
        raise _undeclared(type(obj).__name__, name)
    msg = f"{type(obj).__name__!r} object has no attribute {name!r}"
    raise AttributeError(msg)


def _undeclared(*names: str) -> UndeclaredReadError:
    return UndeclaredReadError(
        f"{' '.join(names)} was read from a cache, but the controller does not declare "
        "it; add its path to the Reads of the controller's Descriptor"
    )


@contextmanager
def comparisons_reported() -> Iterator[None]:
    """Raise UndeclaredReadError where undeclared fields are compared or encoded."""
    try:
        yield
    except AttributeError as error:
        if _UNSET not in str(error):
            raise
        raise _undeclared(str(error)) from error


class HiddenType(str):
    """The type of a list entry that the controller did not declare.

    It differs from every other type; a comparison with its own raises
    UndeclaredReadError, because the controller looks for this entry.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Compare with the type of an entry."""
        if isinstance(other, HiddenType):
            return str(self) == str(other)
        if isinstance(other, str) and str(self) == other:
            raise _undeclared(_ENTRY, other)
        return False

    def __ne__(self, other: object) -> bool:
        """Compare with the type of an entry."""
        return not self == other

    __hash__ = str.__hash__


def _view_of_struct(struct: type[Struct], kept: Kept) -> View | None:
    """Return the view of one struct; `None` if all its fields are declared."""
    members = vars_of(struct)
    unset = [
        members[each.name].__delete__
        for each in fields_of(struct)
        if each.encode_name not in kept.fields
    ]
    parts: list[tuple[str, View]] = []
    for each in fields_of(struct):
        child = kept.fields.get(each.encode_name)
        if child is not None and (part := _view_of_field(each, child)) is not None:
            parts.append((each.name, part))
    if not unset and not parts:
        return None

    def view(obj: Struct) -> Struct:
        made = copy(obj)
        for delete in unset:
            delete(made)
        for name, part in parts:
            if (value := getattr(obj, name)) is not None:
                force_setattr(made, name, part(value))
        return made

    return view


def vars_of(struct: type[Struct]) -> dict[str, Any]:
    """Return the members of a struct type and of its bases, which hold its fields."""
    found: dict[str, Any] = {}
    for each in reversed(struct.__mro__):
        found.update(vars(each))
    return found


def _view_of_field(described: FieldInfo, kept: Kept) -> View | None:
    """Return the view of the value of one declared field, `None` for all of it."""
    struct, is_list = struct_within(described.type)
    if kept.whole or struct is None:
        return None
    if not is_list:
        return _view_of_struct(struct, kept)
    of_entry = _view_of_struct(struct, kept)
    if not kept.entries:
        return None if of_entry is None else lambda value: tuple(map(of_entry, value))
    of_others = of_entry if kept.fields else _hiding(struct)
    declared = frozenset(kept.entries)

    def view_of_entries(value: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(
            entry if entry.type in declared or of_others is None else of_others(entry)
            for entry in value
        )

    return view_of_entries


def _hiding(struct: type[Struct]) -> View:
    """Return the view of an entry that is not declared: its type can be asked."""
    members = vars_of(struct)
    unset = [
        members[each.name].__delete__
        for each in fields_of(struct)
        if each.encode_name != "type"
    ]

    def hide(entry: Any) -> Any:  # noqa: ANN401 - an entry of any type
        made = copy(entry)
        for delete in unset:
            delete(made)
        force_setattr(made, "type", HiddenType(entry.type))
        return made

    return hide
