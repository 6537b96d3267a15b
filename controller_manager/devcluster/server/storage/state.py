"""The whole state of a storage: takes it at one version, loads and restores it."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from controller_manager.api.json_objects import JSON

from .storage import Collection, Key, Storage, Stored


class StorageState(Struct, frozen=True):
    """All objects of a storage as of one version.

    `objects` has them by the ``plural.group`` of their resource. `numbers` are those of
    ``Storage.next_number``.
    """

    version: int
    objects: Mapping[str, Mapping[Key, Stored]]
    numbers: Mapping[str, int]

    @property
    def count(self) -> int:
        """The number of objects."""
        return sum(map(len, self.objects.values()))


def state_of(storage: Storage) -> StorageState:
    """Return the present state without copies: stored objects never change."""
    objects = {
        resource: collection.snapshot()
        for resource, collection in storage.collections().items()
        if len(collection)
    }
    return StorageState(storage.version, objects, dict(storage.last_numbers))


def load(storage: Storage, state: StorageState) -> None:
    """Fill an empty storage, which continues with the version of the state.

    Watches of earlier changes get 410, so that clients list.
    """
    storage.version = storage.loaded_at = state.version
    storage.last_numbers.update(state.numbers)
    for resource, objects in state.objects.items():
        storage.collection(resource).load(objects)


def restore(storage: Storage, state: StorageState, *, ends_watches: bool) -> None:
    """Replace the objects of a storage that is in use.

    Each difference from the state becomes a change with a version higher than all
    before, and watchers see each change. Unchanged objects keep their version. With
    `ends_watches`, the watches of clients end with 410, and requests that begin at an
    earlier version get 410, as after a restore of etcd.
    """
    collections = storage.collections()
    for resource, objects in state.objects.items():
        collections[resource] = storage.collection(resource)
        _replace(collections[resource], objects)
    for resource, collection in collections.items():
        if resource not in state.objects:
            _replace(collection, {})
    for name, number in state.numbers.items():
        storage.last_numbers[name] = max(storage.last_numbers[name], number)
    if not ends_watches:
        return
    # An older list must not continue either, even without other changes.
    storage.next_version()
    for collection in collections.values():
        collection.expire()


def _replace(collection: Collection, objects: Mapping[Key, Stored]) -> None:
    for key, stored in collection.snapshot().items():
        wanted = objects.get(key)
        if wanted is None or _uid(wanted.obj) != _uid(stored.obj):
            collection.remove(key)
    for key, wanted in objects.items():
        present = collection.get(key)
        if present is None or not _are_equal(present, wanted):
            collection.put(key, wanted.obj)


def _uid(obj: JSON) -> Any:
    return obj["metadata"].get("uid")


def _are_equal(one: Stored, other: Stored) -> bool:
    """Tell whether two versions of an object differ only in their resourceVersion."""
    if one is other:
        return True
    if _without_version(one.obj["metadata"]) != _without_version(other.obj["metadata"]):
        return False
    return {**one.obj, "metadata": None} == {**other.obj, "metadata": None}


def _without_version(metadata: JSON) -> JSON:
    return {**metadata, "resourceVersion": ""}
