"""Changes: the parts of an object by which two of its versions differ.

Handlers and indexes declare the parts on which they depend, by their paths. Each event
is compared once for all of them, and only as far as some of them ask: the result is a
number with one bit for each declared path.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final, get_args

from msgspec import Struct

from .reads import Step, fields_of, resolve_path, struct_within

ALL_PARTS: Final = -1
"""All parts: the bits of a comparison that was not made, such as that of a resync."""

_ALWAYS_READ: Final = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.creationTimestamp",
)
"""The fields that are the same in all versions of an object."""

Compare = Callable[[Any, Any], int]
"""Returns the bits of the parts by which two versions differ."""


@dataclass(frozen=True, slots=True, init=False)
class DependsOn:
    """The parts of an object on which a handler's `on_update`, or an index, depends.

    As long as none of the `parts` has changed, an update has no effect on a handler,
    and an index has the same values. So the handler is not called, except at a resync,
    and the index is not updated. Without parts that is always so.

    `reading` names the parts that are read as well, and whose changes alone have no
    effect: the handler reads them once one of its parts has changed, or they never
    change. In the strict mode of the caches (`informers.strict`), reading any other
    part raises UndeclaredReadError. Name, namespace, uid and creation time may always
    be read.

    Paths are those of `Reads`. A list is compared as a whole, or by its entries of one
    type, as in ``status.conditions[Ready]``.

    >>> DependsOn("spec.replicas", "status.conditions[Ready]").parts
    ('spec.replicas', 'status.conditions[Ready]')
    """

    parts: tuple[str, ...]
    reading: tuple[str, ...]

    def __init__(self, *parts: str, reading: Iterable[str] = ()) -> None:
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "reading", tuple(reading))

    def readable(self, struct: type[Struct]) -> dict[str, tuple[Step, ...]]:
        """Return all paths that may be read of this type, and their steps.

        Raises ValueError, which names the path, if the type has no such field.
        """
        paths = (*_ALWAYS_READ, *self.parts, *self.reading)
        return {path: resolve_path(struct, path) for path in paths}


@dataclass(slots=True)
class _Part:
    """A field to compare: as a whole, by its fields, or by entries of a list."""

    bit: int = 0
    fields: "dict[str, _Part]" = field(default_factory=dict)
    entries: dict[str, int] = field(default_factory=dict)

    def add(self, steps: tuple[Step, ...], bit: int) -> None:
        """Compare the field at the end of a path, too."""
        if not steps:
            self.bit |= bit
            return
        child = self.fields.setdefault(steps[0].field, _Part())
        if entry := steps[0].entry:
            child.entries[entry] = child.entries.get(entry, 0) | bit
        else:
            child.add(steps[1:], bit)

    def all_bits(self) -> int:
        """Return the bits of this part and of those below it."""
        bits = self.bit
        for child in self.fields.values():
            bits |= child.all_bits()
        for entry in self.entries.values():
            bits |= entry
        return bits


class Comparison:
    """Compares two versions of an object of one resource, by the declared parts."""

    def __init__(self, struct: type[Struct] | None = None) -> None:
        """Compare objects of this type, by default that of the first of them."""
        self._struct = struct
        self._bits: dict[str, int] = {}
        self._compare: Compare | None = None

    def bits_of(self, depends_on: DependsOn) -> int:
        """Return the bits of the parts of a declaration; compare them from now on.

        Raises ValueError, which names the path, if the type has no such field, or if a
        path leads into the entries of a list.
        """
        if self._struct is not None:
            depends_on.readable(self._struct)
            for path in depends_on.parts:
                _add_path(_Part(), self._struct, path, 0)
        bits = 0
        for path in depends_on.parts:
            if path not in self._bits:
                self._bits[path] = 1 << len(self._bits)
                self._compare = None
            bits |= self._bits[path]
        return bits

    def changed(self, old: Any, new: Any) -> int:  # noqa: ANN401 - of any resource
        """Return the bits of the parts by which two versions of an object differ."""
        compare = self._compare
        if compare is None:
            compare = self._compare = self._compiled(type(new))
        return compare(old, new)

    def _compiled(self, struct: type[Struct]) -> Compare:
        whole = _Part()
        for path, bit in self._bits.items():
            _add_path(whole, self._struct or struct, path, bit)
        return _compare_struct(self._struct or struct, whole)


def _add_path(whole: _Part, struct: type[Struct], path: str, bit: int) -> None:
    steps = resolve_path(struct, path)
    inner: type[Struct] | None = struct
    for number, step in enumerate(steps):
        assert inner is not None  # noqa: S101 - `resolve_path` has found the fields
        found = {each.encode_name: each for each in fields_of(inner)}[step.field]
        inner, is_list = struct_within(found.type)
        if is_list and number + 1 < len(steps):
            msg = f"cannot compare {path!r}: entries of a list are compared as a whole"
            raise ValueError(msg)
    whole.add(steps, bit)


def _compare_struct(struct: type[Struct], whole: _Part) -> Compare:
    chosen = [
        (each.name, whole.fields[each.encode_name], each)
        for each in fields_of(struct)
        if each.encode_name in whole.fields
    ]
    plans = tuple(
        (attrgetter(name), part.bit, _compare_below(each.type, part))
        for name, part, each in chosen
    )
    if all(below is None for _, _, below in plans):
        return _compare_leaves([name for name, *_ in chosen], plans)

    def compare(old: Struct, new: Struct) -> int:
        bits = 0
        for get, bit, below in plans:
            before, after = get(old), get(new)
            if before is after:
                continue
            if below is None or bit:
                if before == after:
                    continue
                bits |= bit
            if below is not None:
                bits |= below(before, after)
        return bits

    return compare


_Plan = tuple[Callable[[Any], Any], int, Compare | None]


def _compare_leaves(names: list[str], plans: tuple[_Plan, ...]) -> Compare:
    """Return the comparison of fields that are compared as a whole.

    Most of the time all are equal; then this takes one comparison of two tuples.
    """
    if len(names) < 2:  # noqa: PLR2004 - an attrgetter of one name makes no tuple
        get_one: Callable[[Any], Any] = attrgetter(*names) if names else _nothing
        only = plans[0][1] if plans else 0
        return lambda old, new: 0 if get_one(old) == get_one(new) else only
    get = attrgetter(*names)
    bits = tuple(bit for _, bit, _ in plans)

    def compare(old: Struct, new: Struct) -> int:
        before, after = get(old), get(new)
        if before == after:
            return 0
        found = 0
        for one, other, bit in zip(before, after, bits, strict=True):
            if one is not other and one != other:
                found |= bit
        return found

    return compare


def _nothing(_: Any) -> None:  # noqa: ANN401 - any object
    return None


def _compare_below(annotation: Any, part: _Part) -> Compare | None:  # noqa: ANN401
    """Return the comparison of the parts below a field; `None` if there are none."""
    if part.entries:
        return _compare_entries(tuple(part.entries.items()))
    struct, _ = struct_within(annotation)
    if struct is None or not part.fields:
        return None
    compare, all_bits = _compare_struct(struct, part), part.all_bits()

    def compare_present(before: Struct | None, after: Struct | None) -> int:
        if before is None or after is None:
            return all_bits
        return compare(before, after)

    return compare_present if type(None) in get_args(annotation) else compare


_Entries = Iterable[Any] | None


def _compare_entries(types: tuple[tuple[str, int], ...]) -> Compare:
    def compare(before: _Entries, after: _Entries) -> int:
        bits = 0
        for name, bit in types:
            old = [each for each in before or () if each.type == name]
            if old != [each for each in after or () if each.type == name]:
                bits |= bit
        return bits

    return compare
