"""The state of a storage can be taken and restored."""

import random

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.storage import (
    Key,
    Storage,
    TooOldError,
    Watcher,
    load,
    restore,
    state_of,
)

Contents = dict[str, dict[Key, JSON]]

RESOURCES = ("pods", "nodes", "leases.coordination.k8s.io")


def change_at_random(storage: Storage, rng: random.Random) -> None:
    collection = storage.collection(rng.choice(RESOURCES))
    key = ("n", rng.choice("abcde"))
    if collection.get(key) is not None and rng.random() < 0.4:
        collection.remove(key)
    else:
        uid, step = rng.choice("12"), rng.randrange(4)
        collection.put(key, {"metadata": {"name": key[1], "uid": uid}, "step": step})


def contents(storage: Storage) -> Contents:
    return {
        resource: {
            key: plain(stored.obj) for key, stored in collection.snapshot().items()
        }
        for resource, collection in storage.collections().items()
        if len(collection)
    }


def plain(obj: JSON) -> JSON:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": ""}}


def follow(watcher: Watcher, known: dict[Key, JSON]) -> None:
    """Do what a client does with events."""
    for change in watcher.take():
        if change.type == "DELETED":
            del known[change.key]
            continue
        assert (change.key in known) == (change.type == "MODIFIED")
        known[change.key] = plain(change.after.obj)


def test_a_restored_state_is_the_one_that_was_taken() -> None:
    """Watchers of the changes reach the same state; all new versions are higher."""
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    for _ in range(50):
        storage = Storage()
        for _ in range(rng.randrange(30)):
            change_at_random(storage, rng)
        state, wanted = state_of(storage), contents(storage)
        for _ in range(rng.randrange(30)):
            change_at_random(storage, rng)
        before = contents(storage)
        known = {each: dict(before.get(each, {})) for each in RESOURCES}
        watchers = {
            each: storage.collection(each).watch(storage.version) for each in RESOURCES
        }
        versions, highest = contents_by_version(storage), storage.version
        ends_watches = rng.random() < 0.5
        restore(storage, state, ends_watches=ends_watches)
        assert contents(storage) == wanted, seed
        for resource, watcher in watchers.items():
            follow(watcher, known[resource])
            assert watcher.has_expired() is ends_watches
        assert {name: each for name, each in known.items() if each} == wanted, seed
        for place, version in contents_by_version(storage).items():
            assert version > highest or versions[place] == version, seed
        if ends_watches:
            with pytest.raises(TooOldError):
                storage.collection("pods").watch(highest)


def contents_by_version(storage: Storage) -> dict[tuple[str, Key], int]:
    return {
        (resource, key): stored.version
        for resource, collection in storage.collections().items()
        for key, stored in collection.snapshot().items()
    }


def test_a_state_that_is_loaded_keeps_its_versions_and_has_no_history() -> None:
    first, second = Storage(), Storage()
    first.collection("pods").put(("n", "a"), {"metadata": {"name": "a"}})
    first.next_number("addresses")
    load(second, state_of(first))
    assert contents_by_version(second) == contents_by_version(first)
    assert second.next_number("addresses") == 2
    for resource in ("pods", "nodes"):
        assert second.collection(resource).watch(second.version).take() == []
        with pytest.raises(TooOldError):
            second.collection(resource).watch(second.version - 1)
    assert second.next_version() == first.version + 1
