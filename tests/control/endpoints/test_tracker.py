"""A controller recognizes its own changes of slices."""

from msgspec.structs import replace

from controller_manager.api.discovery.v1 import EndpointSlice
from controller_manager.control.endpoints.slice_writes import SliceTracker
from controller_manager.informers.store import Lister, Store
from tests.control.endpoints.objects import endpoint_slice


def version(number: int, name: str = "s") -> EndpointSlice:
    return endpoint_slice(name, metadata={"resourceVersion": str(number)})


def tracker_with(*cached: EndpointSlice) -> tuple[SliceTracker, Store[EndpointSlice]]:
    store: Store[EndpointSlice] = Store()
    for each in cached:
        store.put(each)
    return SliceTracker(Lister(store, "EndpointSlice")), store


def test_a_version_up_to_the_last_write_is_its_own() -> None:
    """A later version is from another client, and so is a slice that it never wrote."""
    tracker, _ = tracker_with()
    assert not tracker.is_own_write(version(5))
    tracker.wrote(version(5))
    answers = [tracker.is_own_write(version(each)) for each in (4, 5, 6)]
    assert answers == [True, True, False]


def test_a_deleted_slice_does_not_count_while_it_is_cached() -> None:
    """That ends when the cache shows the deletion, or when the deletion has failed."""
    tracker, _ = tracker_with(version(5))
    tracker.deleted(version(5))
    assert tracker.is_deleted(version(5))
    tracker.kept(version(5))
    assert not tracker.is_deleted(version(5))
    tracker.deleted(version(5))
    assert tracker.gone(version(5))
    assert not tracker.is_deleted(version(5))


def test_a_slice_that_is_not_cached_any_more_is_not_remembered() -> None:
    """The watch may be faster than the response to the deletion."""
    tracker, _ = tracker_with()
    tracker.deleted(version(5))
    assert len(tracker) == 0
    namesake = replace(version(5), metadata=replace(version(5).metadata, uid="other"))
    tracker, _ = tracker_with(namesake)
    tracker.deleted(version(5))
    assert len(tracker) == 0


def test_the_deletion_of_a_slice_by_another_client_is_reported() -> None:
    """It is dropped as well."""
    tracker, _ = tracker_with(version(5))
    tracker.wrote(version(5))
    assert not tracker.gone(version(5))
    assert len(tracker) == 0


def test_slices_whose_deletion_was_seen_before_the_answer_are_dropped() -> None:
    """They are dropped when the tracker has many slices."""
    tracker, store = tracker_with()
    kept = [version(1, f"kept-{each}") for each in range(10)]
    for each in kept:
        store.put(each)
        tracker.wrote(each)
    for number in range(500):
        tracker.wrote(version(1, f"gone-{number}"))
        assert len(tracker) <= 64
    assert all(map(tracker.is_own_write, kept))
