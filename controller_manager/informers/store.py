"""An indexed cache of immutable objects."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from controller_manager.api.meta import KubeObject, key_of
from controller_manager.informers.indexes import Index

ObjectT = TypeVar("ObjectT", bound=KubeObject)


@dataclass(slots=True)
class _Filed(Generic[ObjectT]):
    """Keys by what they are filed under, in the order of their coming."""

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
    """Objects by key, and by whatever indexes were asked for.

    Objects are immutable and handed out as they are; a reader that keeps one
    keeps that version. Iteration is in order of first insertion.
    """

    def __init__(self) -> None:
        """Make an empty store without indexes."""
        self._objects: dict[str, ObjectT] = {}
        self._indexes: dict[str, _Filed[ObjectT]] = {}

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
        """Maintain an index from now on; adding the same one again is free."""
        if index.name in self._indexes:
            return
        filed = self._indexes[index.name] = _Filed(index)
        for key, obj in self._objects.items():
            filed.insert(key, obj)

    def get(self, key: str) -> ObjectT | None:
        """Return the object of that key."""
        return self._objects.get(key)

    def by_index(self, index: Index, value: str) -> list[ObjectT]:
        """Return the objects that the index files under `value`."""
        objects, filed = self._objects, self._indexes[index.name]
        return [objects[key] for key in filed.keys.get(value, ())]

    def put(self, obj: ObjectT, key: str = "") -> ObjectT | None:
        """Store `obj`, of which the key may be known; return what it replaces."""
        key = key or key_of(obj)
        old = self._objects.get(key)
        # Assigned to, an entry keeps the key it has: one string for all indexes.
        self._objects[key] = obj
        for filed in self._indexes.values():
            if old is None:
                filed.insert(key, obj)
            elif not filed.index.is_alike(old, obj):
                filed.remove(key, old)
                filed.insert(key, obj)
        return old

    def without_objects(self) -> "Store[ObjectT]":
        """Return an empty store with the same indexes."""
        empty: Store[ObjectT] = Store()
        for filed in self._indexes.values():
            empty.add_index(filed.index)
        return empty

    def exchange(self, other: "Store[ObjectT]") -> dict[str, ObjectT]:
        """Hold what `other` holds, all of it at once; return what was held.

        `other` is one that `without_objects` returned; it is empty afterwards. An
        index that was added since then is filled now.
        """
        before, (self._objects, indexes) = self._objects, other.release()
        for name, index in self._indexes.items():
            filled = indexes.get(name)
            index.keys = {} if filled is None else filled.keys
            if filled is None:
                for key, obj in self._objects.items():
                    index.insert(key, obj)
        return before

    def release(self) -> tuple[dict[str, ObjectT], dict[str, _Filed[ObjectT]]]:
        """Return the objects and the indexes; the store has none of them any more."""
        released = self._objects, self._indexes
        self._objects, self._indexes = {}, {}
        return released

    def remove(self, key: str) -> ObjectT | None:
        """Drop the object of that key; return it."""
        old = self._objects.pop(key, None)
        if old is not None:
            for index in self._indexes.values():
                index.remove(key, old)
        return old
