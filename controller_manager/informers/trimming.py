"""Trimming: drops the fields of objects that no controller reads, and shares owners.

The dropped fields are the same for every object of a resource, so they are determined
once, at the start. The result is one function, which visits only those parts of an
object that have something to drop.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from sys import intern
from typing import Any, Final

from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, force_setattr

from controller_manager.api.meta import OwnerReference, PartialMetadata

from .reads import Reads, Step, fields_of, struct_within

MAX_REMEMBERED: Final = 4096
"""The number of parts of one sort that are remembered before all are forgotten."""


class OwnerTransform:
    """Makes objects of one resource share namespaces and owners.

    It changes frozen objects. This is safe because no other code has them yet.
    """

    def __init__(self) -> None:
        """Start without remembered owners."""
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
    """Return the default of a field; NODEFAULT for a required field."""
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
