"""Objects, their versions and their history."""

import random
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.storage import Storage, TooOldError


def test_history_can_be_read_back() -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    storage = Storage(history=1000)
    pods = storage.collection("pods")
    states: dict[int, dict[tuple[str, str], Any]] = {storage.version: {}}
    for step in range(200):
        name = rng.choice("abcde")
        key = (rng.choice(("n", "n-m", "n0")), name)
        if pods.get(key) is not None and rng.random() < 0.3:
            pods.remove(key)
        elif pods.get(key) is None and rng.random() < 0.5:
            pods.add(key, {"metadata": {"name": name}, "step": step})
        else:
            pods.put(key, {"metadata": {"name": name}, "step": step})
        states[storage.version] = {k: v.obj for k, v in pods.snapshot().items()}
    for version, state in states.items():
        found = {k: v.obj for k, v in pods.snapshot(version).items()}
        assert found == state, seed
        in_order = sorted(state, key="/".join)
        listed = pods.ordered(version=version)
        assert [key for key, _ in listed] == in_order, seed
        assert {key: each.obj for key, each in listed} == state, seed
        for after in ("n/c", "n-m/a", "n"):
            expected = [k for k in in_order if k[0] == "n" and "/".join(k) > after]
            found_keys = [key for key, _ in pods.ordered("n", after, version)]
            assert found_keys == expected, seed
        changes = pods.watch(version).take()
        later = list(range(version + 1, storage.version + 1))
        assert [change.version for change in changes] == later, seed


def test_the_selected_objects_come_in_the_order_of_lists() -> None:
    pods = Storage().collection("pods")
    for key in (("n", "b"), ("n-m", "a"), ("n", "a"), ("m", "c"), ("n", "c")):
        pods.put(key, {"metadata": {"name": key[1]}})

    def is_wanted(obj: JSON) -> bool:
        return bool(obj["metadata"]["name"] != "c")

    assert [key for key, _ in pods.selected("n", is_wanted)] == [("n", "a"), ("n", "b")]
    everywhere = [key for key, _ in pods.selected("", is_wanted)]
    assert everywhere == [("n-m", "a"), ("n", "a"), ("n", "b")]
    listed = [each for each in pods.ordered() if each[0][1] != "c"]
    assert pods.selected("", is_wanted) == listed


def test_versions_outside_of_the_history_cannot_be_watched() -> None:
    storage = Storage(history=3)
    pods = storage.collection("pods")
    for number in range(10):
        pods.put(("n", "a"), {"metadata": {"name": "a"}, "n": number})
    with pytest.raises(TooOldError):
        pods.watch(2)
    with pytest.raises(TooOldError):
        pods.snapshot(2)
    watcher = pods.watch(storage.version - 2)
    assert [change.after.obj["n"] for change in watcher.take()] == [8, 9]


def test_a_resource_on_its_own_counts_its_own_versions() -> None:
    """As with ``--etcd-servers-overrides``: the others do not advance it."""
    storage = Storage()
    pods, claims = storage.collection("pods"), storage.collection("claims")
    pods.put(("n", "a"), {"metadata": {"name": "a"}})
    pods.separate(1000)
    watcher = pods.watch(pods.version)
    claims.put(("n", "c"), {"metadata": {"name": "c"}})
    stored = pods.put(("n", "b"), {"metadata": {"name": "b"}})
    assert (storage.version, claims.version, pods.version) == (3, 3, 1003)
    assert stored.obj["metadata"]["resourceVersion"] == "1003"
    assert [change.version for change in watcher.take()] == [1003]
    assert [*pods.snapshot(1002)] == [("n", "a")]
    assert [*pods.snapshot(2)] == [("n", "a")]
    assert [*pods.snapshot()] == [("n", "a"), ("n", "b")]


def test_a_resource_whose_changes_are_kept_is_not_on_its_own() -> None:
    storage = Storage()
    storage.is_kept = True
    with pytest.raises(ValueError, match="a cluster with a data file"):
        storage.collection("pods").separate(1000)
