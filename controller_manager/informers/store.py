"""An indexed cache of immutable objects."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, TypeVar

from controller_manager.api.meta import KubeObject, key_of
from controller_manager.api.owners import controller_of

ObjectT = TypeVar("ObjectT", bound=KubeObject)

IndexFunction = Callable[[ObjectT], Iterable[str]]

NAMESPACE_INDEX: Final = "namespace"
CONTROLLER_UID_INDEX: Final = "controllerUID"
ORPHAN_INDEX: Final = "orphan"


def namespace_index(obj: KubeObject) -> Iterable[str]:
    """Index by namespace."""
    return (obj.metadata.namespace,)


def controller_uid_index(obj: KubeObject) -> Iterable[str]:
    """Index by the uid of the managing owner: a replica set's pods at once."""
    reference = controller_of(obj)
    return (reference.uid,) if reference is not None else ()


def orphan_index(obj: KubeObject) -> Iterable[str]:
    """Index objects without a managing owner by namespace."""
    return () if controller_of(obj) is not None else (obj.metadata.namespace,)


class Store(Generic[ObjectT]):
    """Objects by key, and by whatever indexes were asked for.

    Objects are immutable and handed out as they are; a reader that keeps one
    keeps that version. Iteration is in order of first insertion.
    """

    def __init__(self) -> None:
        """Make an empty store with the namespace index."""
        self._objects: dict[str, ObjectT] = {}
        self._functions: dict[str, IndexFunction[ObjectT]] = {}
        self._indexes: dict[str, dict[str, dict[str, ObjectT]]] = {}
        self.add_index(NAMESPACE_INDEX, namespace_index)

    def __len__(self) -> int:
        """Return how many objects are held."""
        return len(self._objects)

    def __iter__(self) -> Iterator[ObjectT]:
        """Iterate over a snapshot of all objects."""
        return iter(list(self._objects.values()))

    def keys(self) -> list[str]:
        """Return the keys of all objects."""
        return list(self._objects)

    def add_index(self, name: str, function: IndexFunction[ObjectT]) -> None:
        """Maintain an index from now on; adding the same one again is free."""
        if name in self._functions:
            return
        self._functions[name] = function
        self._indexes[name] = {}
        for key, obj in self._objects.items():
            self._insert(name, key, obj)

    def get(self, key: str) -> ObjectT | None:
        """Return the object of that key."""
        return self._objects.get(key)

    def by_index(self, name: str, value: str) -> list[ObjectT]:
        """Return the objects that the index files under `value`."""
        entries = self._indexes[name].get(value)
        return list(entries.values()) if entries else []

    def put(self, obj: ObjectT) -> ObjectT | None:
        """Store `obj`; return the version that it replaces."""
        key = key_of(obj)
        old = self._objects.get(key)
        if old is not None:
            self._remove_from_indexes(key, old)
        self._objects[key] = obj
        for name in self._functions:
            self._insert(name, key, obj)
        return old

    def remove(self, key: str) -> ObjectT | None:
        """Drop the object of that key; return it."""
        old = self._objects.pop(key, None)
        if old is not None:
            self._remove_from_indexes(key, old)
        return old

    def _insert(self, name: str, key: str, obj: ObjectT) -> None:
        index = self._indexes[name]
        for value in self._functions[name](obj):
            index.setdefault(value, {})[key] = obj

    def _remove_from_indexes(self, key: str, obj: ObjectT) -> None:
        for name, function in self._functions.items():
            index = self._indexes[name]
            for value in function(obj):
                entries = index.get(value)
                if entries is None:
                    continue
                entries.pop(key, None)
                if not entries:
                    del index[value]
