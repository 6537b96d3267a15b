"""The strict mode: an undeclared field of a cached object cannot be read.

A cache keeps the union of the fields that all enabled controllers declare. So a
controller that forgot a declaration finds the field as long as another controller
declares it, or as long as another one reads whole objects, and an empty field
otherwise. The strict mode finds such a controller: it gets views of the cached objects,
and to read an undeclared field of a view raises UndeclaredReadError.

The strict mode is for tests: it copies the declared parts of each object once for each
controller. Compare client-go's cache mutation detector.
"""

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from copy import copy
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import FieldInfo, force_setattr, replace

from controller_manager.api.meta import APIStruct, KubeObject, key_of

from .changes import DependsOn
from .dispatch import Handler, Registration, ignore
from .informer import SharedInformer
from .reads import Kept, Step, fields_of, struct_within
from .store import Index, Store

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


ObjectT = TypeVar("ObjectT", bound=KubeObject)


class _Views(Generic[ObjectT]):
    """The views of the objects of one store, one for each version of an object."""

    def __init__(self, store: Store[ObjectT], view: View) -> None:
        self._store = store
        self._view = view
        self._made: dict[str, tuple[ObjectT, ObjectT]] = {}

    def of(self, obj: ObjectT) -> ObjectT:
        """Return the view of an object, the same one each time."""
        key = key_of(obj)
        known = self._made.get(key)
        if known is not None and known[0] is obj:
            return known[1]
        made: ObjectT = self._view(obj)
        if self._store.get(key) is obj:
            self._made[key] = obj, made
        return made

    def forget(self, obj: ObjectT) -> None:
        """Drop the view of an object that is gone."""
        self._made.pop(key_of(obj), None)


class DeclaredStore(Store[ObjectT]):
    """A store that returns views. Its indexes are those of one controller."""

    def __init__(
        self,
        store: Store[ObjectT],
        views: _Views[ObjectT],
        struct: type[Struct],
        kept: Kept | None,
        reader: str,
    ) -> None:
        """`kept` are the fields that it declares, `None` for whole objects."""
        super().__init__()
        self._struct = struct
        self._kept = kept
        self._store = store
        self._views = views
        self._reader = reader

    def __len__(self) -> int:
        """Return how many objects are held."""
        return len(self._store)

    def __iter__(self) -> Iterator[ObjectT]:
        """Iterate over views of a snapshot of all objects."""
        return map(self._views.of, self._store)

    @property
    def changes(self) -> int:
        """The number of changes so far."""
        return self._store.changes

    def keys(self) -> list[str]:
        """Return the keys of all objects."""
        return self._store.keys()

    def add_index(self, index: Index) -> None:
        """Maintain an index that reads only what this controller has declared."""
        self._store.add_index(self._own(index))

    def get(self, key: str) -> ObjectT | None:
        """Return a view of the object of this key, `None` if there is none."""
        obj = self._store.get(key)
        return None if obj is None else self._views.of(obj)

    def by_index(self, index: Index, value: str) -> list[ObjectT]:
        """Return views of the objects that have this value in the index."""
        return list(map(self._views.of, self._store.by_index(self._own(index), value)))

    def count(self, index: Index, value: str) -> int:
        """Return how many objects have this value in the index."""
        return self._store.count(self._own(index), value)

    def _own(self, index: Index) -> Index:
        view: View = self._views.of
        name = f"{self._reader}: {index.name}"
        compare = index.has_same_values
        if compare is None:
            # The index may read only the parts on which it depends.
            view = view_of_parts(self._struct, self._kept, index.depends_on)

        def values(obj: ObjectT) -> Iterable[str]:
            with comparisons_reported():
                return list(index.function(view(obj)))

        if compare is None:
            return replace(index, name=name, function=values)

        def has_same_values(old: ObjectT, new: ObjectT) -> bool:
            with comparisons_reported():
                return compare(view(old), view(new))

        return replace(
            index, name=name, function=values, has_same_values=has_same_values
        )


class DeclaredInformer(Generic[ObjectT]):
    """A shared informer as one controller sees it: all its objects are views."""

    def __init__(
        self, informer: SharedInformer[ObjectT], kept: Kept | None, reader: str
    ) -> None:
        """`kept` are the fields that it declares, `None` for whole objects."""
        self._informer = informer
        self._kept = kept
        struct: type[Struct] = informer.resource.type  # type: ignore[assignment]
        self._struct = struct
        self._views: _Views[ObjectT] = _Views(informer.store, view_of(struct, kept))
        informer.add_handler(Handler(on_delete=self._views.forget))
        self.resource = informer.resource
        self.store: Store[ObjectT] = DeclaredStore(
            informer.store, self._views, struct, kept, reader
        )

    @property
    def epoch(self) -> int:
        """The number of times that the server's resource versions have gone back."""
        return self._informer.epoch

    @property
    def resource_version(self) -> str:
        """The version up to which the store is complete; empty before a list."""
        return self._informer.resource_version

    @property
    def is_synced(self) -> bool:
        """True once the first complete list is in the store."""
        return self._informer.is_synced

    def has_reached(self, resource_version: str) -> bool:
        """Tell whether the store is at least as new as `resource_version`."""
        return self._informer.has_reached(resource_version)

    async def wait_for_sync(self) -> None:
        """Wait until `is_synced`."""
        await self._informer.wait_for_sync()

    def lacks_any(self, keys: AbstractSet[str]) -> bool:
        """Tell whether a version is missing; see `SharedInformer.lacks_any`."""
        return self._informer.lacks_any(keys)

    def reread(self, obj: ObjectT) -> bool:
        """Compare an object that was just read; see `SharedInformer.reread`."""
        return self._informer.reread(obj)

    def add_handler(self, handler: Handler[ObjectT]) -> Registration[ObjectT]:
        """Call `handler` with views; see `SharedInformer.add_handler`.

        The views of an update have only the parts on which the handler depends.
        """
        of_update: View = self._views.of
        view = of_update
        if handler.depends_on is not None:
            of_update = view_of_parts(self._struct, self._kept, handler.depends_on)
        return self._informer.add_handler(
            Handler(
                on_add=_seeing(handler.on_add, view),
                on_update=_seeing(handler.on_update, of_update),
                on_delete=_seeing(handler.on_delete, view),
                depends_on=handler.depends_on,
                owner_kind=handler.owner_kind,
            )
        )

    def remove_handler(self, registration: Registration[ObjectT]) -> None:
        """Stop calling the handler of a registration."""
        self._informer.remove_handler(registration)


def _seeing(function: Callable[..., None], view: View) -> Callable[..., None]:
    if function is ignore:
        return ignore

    def call(*objects: Any) -> None:  # noqa: ANN401 - objects of the resource
        with comparisons_reported():
            function(*map(view, objects))

    return call
