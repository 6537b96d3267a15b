"""The store: an indexed cache of immutable objects."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from controller_manager.api.meta import KubeObject, key_of
from controller_manager.informers.indexes import Index

ObjectT = TypeVar("ObjectT", bound=KubeObject)


@dataclass(slots=True)
class _IndexEntries(Generic[ObjectT]):
    """The keys of one index by index value, in the order in which they were added."""

    index: Index
    keys: dict[str, dict[str, None]] = field(default_factory=dict)

    def insert(self, key: str, obj: ObjectT) -> None:
        for value in self.index.function(obj):
            self.keys.setdefault(value, {})[key] = None

    def remove(self, key: str, obj: ObjectT) -> None:
        for value in self.index.function(obj):
            entries = self.keys.get(value)
            if entries is None:
                continue
            entries.pop(key, None)
            if not entries:
                del self.keys[value]


class Store(Generic[ObjectT]):
    """Objects by key, and by the indexes that were added.

    Objects are immutable and returned without a copy; a reader that keeps an object
    keeps that version. Iteration is in the order of the first insertion.
    """

    def __init__(self) -> None:
        """Make an empty store without indexes."""
        self._objects: dict[str, ObjectT] = {}
        self._indexes: dict[str, _IndexEntries[ObjectT]] = {}

    def __len__(self) -> int:
        """Return how many objects are held."""
        return len(self._objects)

    def __iter__(self) -> Iterator[ObjectT]:
        """Iterate over a snapshot of all objects."""
        return iter(list(self._objects.values()))

    def keys(self) -> list[str]:
        """Return the keys of all objects."""
        return list(self._objects)

    def add_index(self, index: Index) -> None:
        """Maintain an index from now on; adding the same index again does nothing."""
        if index.name in self._indexes:
            return
        index_entries = self._indexes[index.name] = _IndexEntries(index)
        for key, obj in self._objects.items():
            index_entries.insert(key, obj)

    def get(self, key: str) -> ObjectT | None:
        """Return the object of this key, `None` if there is none."""
        return self._objects.get(key)

    def by_index(self, index: Index, value: str) -> list[ObjectT]:
        """Return the objects that have this value in the index."""
        objects, index_entries = self._objects, self._indexes[index.name]
        return [objects[key] for key in index_entries.keys.get(value, ())]

    def count(self, index: Index, value: str) -> int:
        """Return how many objects have this value in the index."""
        return len(self._indexes[index.name].keys.get(value, ()))

    def put(self, obj: ObjectT, key: str = "") -> ObjectT | None:
        """Store `obj` under `key` (default: `key_of`); return the replaced object."""
        key = key or key_of(obj)
        old = self._objects.get(key)
        # An assignment keeps the key string of the entry, which the indexes share.
        self._objects[key] = obj
        for index_entries in self._indexes.values():
            if old is None:
                index_entries.insert(key, obj)
            elif not index_entries.index.has_same_values(old, obj):
                index_entries.remove(key, old)
                index_entries.insert(key, obj)
        return old

    def without_objects(self) -> "Store[ObjectT]":
        """Return an empty store with the same indexes."""
        empty: Store[ObjectT] = Store()
        for index_entries in self._indexes.values():
            empty.add_index(index_entries.index)
        return empty

    def exchange(self, other: "Store[ObjectT]") -> dict[str, ObjectT]:
        """Replace all objects by those of `other` atomically; return the old ones.

        `other` must come from `without_objects`; it is empty afterwards. An index that
        was added since then is filled now.
        """
        before, (self._objects, indexes) = self._objects, other.release()
        for name, index in self._indexes.items():
            filled = indexes.get(name)
            index.keys = {} if filled is None else filled.keys
            if filled is None:
                for key, obj in self._objects.items():
                    index.insert(key, obj)
        return before

    def release(self) -> tuple[dict[str, ObjectT], dict[str, _IndexEntries[ObjectT]]]:
        """Return the objects and the indexes, and remove them from the store."""
        released = self._objects, self._indexes
        self._objects, self._indexes = {}, {}
        return released

    def remove(self, key: str) -> ObjectT | None:
        """Remove the object of this key; return it."""
        old = self._objects.pop(key, None)
        if old is not None:
            for index in self._indexes.values():
                index.remove(key, old)
        return old
