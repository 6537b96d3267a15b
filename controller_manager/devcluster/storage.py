"""Objects with versions and history, instead of etcd and the watch cache."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from controller_manager.api.json_objects import JSON

# Objects with versions and history, instead of etcd and the watch cache.

Key = tuple[str, str]
"""Namespace (empty for cluster-scoped objects) and name."""


def key_of(obj: JSON) -> Key:
    """Return the key of an object."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


path_of: Final[Callable[[Key], str]] = "/".join
"""Returns the sort key of lists: ``namespace/name``, as in the keys of etcd."""

HISTORY: Final = 10_000
"""The number of changes of one resource that are kept for watches.

Each keeps a former state of an object in memory: 100,000 changes of pods of 3.5 kB were
more than a gigabyte. Upstream keeps those of about a minute.
"""

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]


class TooOldError(Exception):
    """The requested version is no longer in the history."""

    def __init__(self, wanted: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {wanted} ({oldest})")


class Stored:
    """One version of an object; it never changes."""

    __slots__ = ("_encoded", "obj", "version")

    def __init__(self, obj: JSON, version: int) -> None:
        self.obj = obj
        self.version = version
        self._encoded: bytes | None = None

    @property
    def encoded(self) -> bytes:
        """The object as JSON, encoded once for all readers."""
        if self._encoded is None:
            self._encoded = msgspec.json.encode(self.obj)
        return self._encoded


class Change(msgspec.Struct, frozen=True):
    """One change of one object; `before` is `None` for an addition."""

    version: int
    type: ChangeType
    key: Key
    after: Stored
    before: Stored | None


class Watcher:
    """Receives every change of one resource, in order, from a version on."""

    def __init__(self, collection: "Collection", backlog: list[Change]) -> None:
        self._collection = collection
        self._pending = deque(backlog)
        self._wake: asyncio.Future[None] | None = None
        self._is_expired = False

    def notify(self, change: Change) -> None:
        """Receive a change (called by the collection)."""
        self._pending.append(change)
        self._awake()

    def expire(self) -> None:
        """Record that the state was replaced (called by the collection).

        The watcher receives the changes of the replacement as all others.
        """
        self._is_expired = True
        self._awake()

    def has_expired(self) -> bool:
        """Tell whether the state was replaced, so that a client must list again."""
        return self._is_expired

    def _awake(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def take(self) -> list[Change]:
        """Return the changes so far, without waiting."""
        changes = list(self._pending)
        self._pending.clear()
        return changes

    async def wait(self) -> None:
        """Wait until the watcher has a change; return also when the watcher expires.

        Callers that must tell these apart check `has_expired` first.
        """
        if self._pending:
            return
        self._wake = asyncio.get_running_loop().create_future()
        try:
            await self._wake
        finally:
            self._wake = None

    def close(self) -> None:
        """Stop receiving changes."""
        self._collection.forget(self)


class Versions:
    """One sequence of versions, like that of one etcd."""

    __slots__ = ("latest",)

    def __init__(self, latest: int) -> None:
        self.latest = latest

    def next(self) -> int:
        """Return a version higher than all before."""
        self.latest += 1
        return self.latest


class Collection:
    """All objects of one resource."""

    def __init__(self, storage: "Storage") -> None:
        """Take the storage, which counts the versions."""
        self._storage = storage
        self._versions = storage.versions
        self._objects: dict[Key, Stored] = {}
        self._history: deque[Change] = deque()
        self._compacted = storage.loaded_at
        # Watchers are notified in the order of their creation: a dict keeps this order.
        self._watchers: dict[Watcher, None] = {}

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self._objects)

    @property
    def version(self) -> int:
        """The version of the latest change, of this resource or of any other.

        Only resources with the same sequence of versions count.
        """
        return self._versions.latest

    def separate(self, ahead: int) -> None:
        """Count versions apart from now on, beginning `ahead` of the others.

        An API server with ``--etcd-servers-overrides`` for this resource does the same:
        its versions cannot be compared with those of other resources. Raises ValueError
        if a data file keeps the changes, because the file has one sequence.
        """
        if self._storage.is_kept:
            raise ValueError("a cluster with a data file has one sequence of versions")
        self._versions = Versions(self.version + ahead)

    def __iter__(self) -> Iterator[Stored]:
        """Iterate over a snapshot of all objects."""
        return iter(list(self._objects.values()))

    def get(self, key: Key) -> Stored | None:
        """Return the object with that key, `None` if there is none."""
        return self._objects.get(key)

    def put(self, key: Key, obj: JSON, head: JSON | None = None) -> Stored:
        """Store `obj` with the next version, and set its resourceVersion.

        The fields of `head` come first.
        """
        before = self._objects.get(key)
        stored = self._stamped(obj, head or {})
        self._objects[key] = stored
        kind: ChangeType = "ADDED" if before is None else "MODIFIED"
        self._record(Change(stored.version, kind, key, stored, before))
        return stored

    def add(self, key: Key, obj: JSON) -> Stored:
        """Store a new, complete object under a free key, and set its resourceVersion.

        Nothing else has the object, which is not copied.
        """
        version = self._versions.next()
        obj["metadata"]["resourceVersion"] = str(version)
        stored = self._objects[key] = Stored(obj, version)
        self._record(Change(version, "ADDED", key, stored, None))
        return stored

    def remove(self, key: Key) -> Stored:
        """Remove an object; its last state gets a new version."""
        before = self._objects.pop(key)
        stored = self._stamped(before.obj, {})
        self._record(Change(stored.version, "DELETED", key, stored, before))
        return stored

    def _stamped(self, obj: JSON, head: JSON) -> Stored:
        version = self._versions.next()
        metadata = {**obj["metadata"], "resourceVersion": str(version)}
        return Stored({**head, **obj, "metadata": metadata}, version)

    def _record(self, change: Change) -> None:
        self._history.append(change)
        if len(self._history) > self._storage.history:
            self._compacted = self._history.popleft().version
        for watcher in self._watchers:
            watcher.notify(change)

    def snapshot(self, version: int | None = None) -> Mapping[Key, Stored]:
        """Return all objects as of `version` (now, if `None`), by key.

        Raises TooOldError if that version is no longer in the history.
        """
        objects = dict(self._objects)
        for key, before in self._before(version).items():
            if before is not None:
                objects[key] = before
            else:
                objects.pop(key, None)
        return objects

    def ordered(
        self, namespace: str = "", after: str = "", version: int | None = None
    ) -> list[tuple[Key, Stored]]:
        """Return the objects of a namespace (of all, if it is empty), in order.

        They are those of `version` (of now, if `None`), without those up to the path
        `after`. Raises TooOldError if the version is no longer in the history.
        """
        is_past = version is not None and version < self.version
        objects = self.snapshot(version) if is_past else self._objects
        keys: Iterable[Key] = objects
        if namespace:
            keys = [key for key in keys if key[0] == namespace]
        if after:
            keys = [key for key in keys if path_of(key) > after]
        return [(key, objects[key]) for key in sorted(keys, key=path_of)]

    def selected(
        self, namespace: str, is_wanted: Callable[[JSON], bool]
    ) -> list[tuple[Key, Stored]]:
        """Return the present objects of a namespace (of all, if it is empty), in order.

        It puts only those in order that are wanted: often that is a small part.
        """
        found = [
            (key, stored)
            for key, stored in self._objects.items()
            if (not namespace or key[0] == namespace) and is_wanted(stored.obj)
        ]
        return sorted(found, key=lambda each: path_of(each[0]))

    def _before(self, version: int | None) -> dict[Key, Stored | None]:
        """Return the state at `version` of each object that changed later.

        `None` stands for an object that did not exist.
        """
        found: dict[Key, Stored | None] = {}
        if version is not None and version < self.version:
            self._check_age(version)
            for change in reversed(self._history):
                if change.version <= version:
                    break
                found[change.key] = change.before
        return found

    def watch(self, version: int) -> Watcher:
        """Return a watcher of the changes after `version`."""
        self._check_age(version)
        later = takewhile(lambda each: each.version > version, reversed(self._history))
        watcher = Watcher(self, list(later)[::-1])
        self._watchers[watcher] = None
        return watcher

    def _check_age(self, version: int) -> None:
        if version < self._compacted:
            raise TooOldError(version, self._compacted)

    def forget(self, watcher: Watcher) -> None:
        """Stop notifying a watcher."""
        self._watchers.pop(watcher, None)

    def compact(self) -> None:
        """Drop all history: watches from an earlier version get 410."""
        self._history.clear()
        self._compacted = self.version

    def load(self, objects: Mapping[Key, Stored]) -> None:
        """Take objects that were stored before, with their versions.

        The collection is new and has no watchers.
        """
        self._objects.update(objects)

    def expire(self) -> None:
        """Drop all history, and make the clients that watch list again."""
        self.compact()
        for watcher in self._watchers:
            watcher.expire()


class Storage:
    """Collections that share one sequence of versions, except separated collections."""

    def __init__(self, history: int = HISTORY) -> None:
        self.history = history
        self.versions = Versions(1)
        self.loaded_at = 0
        """The version of the loaded state; earlier changes are unknown."""
        self.is_kept = False
        """Tells whether a data file keeps the state."""
        self.trouble = ""
        """The reason why changes cannot be saved at present; empty if they can."""
        self.last_numbers: Counter[str] = Counter()
        self._collections: dict[str, Collection] = {}

    def collection(self, resource: str) -> Collection:
        """Return the objects of a resource, by its ``plural.group``."""
        if resource not in self._collections:
            self._collections[resource] = Collection(self)
        return self._collections[resource]

    def collections(self) -> dict[str, Collection]:
        """Return all collections, by the ``plural.group`` of their resource."""
        return dict(self._collections)

    def next_number(self, name: str) -> int:
        """Return 1, 2, 3 ... for each name; no call for a name repeats a number."""
        self.last_numbers[name] += 1
        return self.last_numbers[name]

    @property
    def version(self) -> int:
        """The version of the latest change."""
        return self.versions.latest

    @version.setter
    def version(self, version: int) -> None:
        self.versions.latest = version

    def next_version(self) -> int:
        """Return a version higher than all before."""
        return self.versions.next()


# The whole state of a storage: takes it at one version, loads and restores it.


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
