"""An informer in the strict mode: it shows one controller only the declared fields."""

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.meta import KubeObject, key_of
from controller_manager.informers.dispatch import Handler, Registration, ignore
from controller_manager.informers.indexes import Index
from controller_manager.informers.informer import SharedInformer
from controller_manager.informers.store import Store
from controller_manager.informers.trimming import Kept

from .views import View, comparisons_reported, view_of, view_of_parts

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
        """Take the store, the type of its objects, and the controller that reads it.

        `kept` are the fields that the controller declares, `None` for whole objects.
        """
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
        """Take the informer, and the controller that uses it.

        `kept` are the fields that the controller declares, `None` for whole objects.
        """
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
