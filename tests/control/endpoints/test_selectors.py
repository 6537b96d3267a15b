"""The services that a pod backs, and the changes of pods that matter."""

from typing import Any

import pytest
from msgspec.structs import replace

from controller_manager.api.core.services import Service
from controller_manager.api.core.v1 import Pod
from controller_manager.api.discovery.v1 import EndpointSlice
from controller_manager.control.endpoints import pods
from controller_manager.control.endpoints.slice_writes import SliceTracker
from controller_manager.control.endpoints.trigger_time import TriggerTimes
from controller_manager.informers.store import Lister, Store
from tests.control.endpoints.objects import endpoint_slice, pod, service


def services(*objects: Service) -> Lister[Service]:
    store: Store[Service] = Store()
    for each in objects:
        store.put(each)
    return Lister(store, "Service", *pods.SERVICE_INDEXES)


ALL = services(
    service("web"),
    service("web-canary", selector={"app": "web", "track": "canary"}),
    service("other", selector={"app": "other"}),
    service("bare", selector=None),
    service("empty", selector={}),
)


def seen_by_handler(old: Pod | None, new: Pod | None) -> list[str]:
    keys: list[str] = []
    handler = pods.pod_handler(
        pods.ServicesOfPods(ALL), lambda key, _: keys.append(key)
    )
    if old is None:
        assert new is not None
        handler.on_add(new)
    elif new is None:
        handler.on_delete(old)
    else:
        handler.on_update(old, new)
    return sorted(each.removeprefix("default/") for each in keys)


def test_a_pod_backs_the_services_whose_selector_it_matches() -> None:
    """A service without a selector, or with an empty one, selects no pod."""
    canary = pod("a", labels={"app": "web", "track": "canary"})
    assert sorted(pods.ServicesOfPods(ALL).keys(canary)) == [
        "default/web",
        "default/web-canary",
    ]
    assert pods.ServicesOfPods(ALL).keys(pod("a")) == ["default/web"]
    assert pods.ServicesOfPods(ALL).keys(pod("a", labels={})) == ()


def test_the_pods_of_a_service_have_all_labels_of_its_selector() -> None:
    store: Store[Pod] = Store()
    lister = Lister(store, "Pod", *pods.POD_INDEXES)
    canary = pod("a", labels={"app": "web", "track": "canary"})
    for each in (canary, pod("b"), pod("c", labels={"track": "canary"})):
        store.put(each)
    wanted = service(selector={"app": "web", "track": "canary"})
    assert list(pods.pods_of(lister, wanted)) == [canary]
    assert list(pods.pods_of(lister, service(selector=None))) == []


@pytest.mark.parametrize(
    ("spec", "answer"),
    [
        ({}, True),
        ({"selector": None}, False),
        ({"selector": {}}, False),
        ({"type": "ExternalName"}, False),
    ],
)
def test_endpoints_of_pods_are_only_those_of_services_with_a_selector(
    spec: dict[str, Any], answer: bool
) -> None:
    """A service of the type ExternalName is an alias, even if it has a selector."""
    assert pods.selects_pods(service(**spec)) is answer


OLD = pod("a", "10.1.0.1")


@pytest.mark.parametrize(
    ("new", "keys"),
    [
        (pod("a", "10.1.0.1"), []),
        (pod("a", "10.1.0.1", since="2026-01-02T00:00:00Z"), []),
        (pod("a", "10.1.0.1", resourceVersion="7"), []),
        (pod("a", "10.1.0.1", ready=False), ["web"]),
        (pod("a", "10.1.0.2"), ["web"]),
        (pod("a", "10.1.0.1", "fd00::1"), ["web"]),
        (pod("a", "10.1.0.1", deletionTimestamp="2026-01-02T00:00:00Z"), ["web"]),
        (pod("a", "10.1.0.1", phase="Failed"), ["web"]),
        (pod("a", "10.1.0.1", uid="another"), ["web"]),
        (pod("a", "10.1.0.1", spec={"nodeName": "n2"}), ["web"]),
        (pod("a", "10.1.0.1", spec={"hostname": "h"}), ["web"]),
        (pod("a", "10.1.0.1", spec={"subdomain": "web"}), ["web"]),
        (pod("a", "10.1.0.1", labels={"app": "other"}), ["other", "web"]),
        (
            pod("a", "10.1.0.1", labels={"app": "web", "track": "canary"}),
            ["web-canary"],
        ),
        (
            pod("a", "10.1.0.2", labels={"app": "web", "track": "canary"}),
            ["web", "web-canary"],
        ),
    ],
)
def test_only_changes_of_endpoints_reach_a_service(new: Pod, keys: list[str]) -> None:
    assert seen_by_handler(OLD, new) == keys


def test_changes_that_do_not_count_are_not_looked_up() -> None:
    """A standby ignores the changes that it sees."""
    keys: list[str] = []
    services = pods.ServicesOfPods(ALL)
    handler = pods.pod_handler(services, lambda key, _: keys.append(key), lambda: False)
    handler.on_add(OLD)
    handler.on_update(OLD, pod("a", "10.1.0.2"))
    handler.on_delete(OLD)
    assert keys == []


def test_a_resync_reaches_no_service() -> None:
    assert seen_by_handler(OLD, OLD) == []


def test_a_pod_that_comes_or_goes_reaches_its_services() -> None:
    assert seen_by_handler(None, OLD) == seen_by_handler(OLD, None) == ["web"]
    assert seen_by_handler(None, replace(OLD, status=pod("a").status)) == ["web"]


def test_the_services_of_pods_are_found_anew_after_each_change_of_a_service() -> None:
    store: Store[Service] = Store()
    found = pods.ServicesOfPods(Lister(store, "Service", *pods.SERVICE_INDEXES))
    labelled = pod("a")
    seen = [list(found.keys(labelled))]
    store.put(service("web"))
    seen.append(list(found.keys(labelled)))
    assert found.keys(replace(labelled)) is found.keys(labelled)
    store.put(service("web", selector={"app": "other"}))
    seen.append(list(found.keys(labelled)))
    store.put(service("web"))
    seen.append(list(found.keys(labelled)))
    store.remove("default/web")
    seen.append(list(found.keys(labelled)))
    assert seen == [[], ["default/web"], [], ["default/web"], []]


CREATED = "2026-01-01T00:00:00Z"


def at(minute: int) -> str:
    return f"2026-01-01T00:{minute:02}:00Z"


def test_the_first_time_is_the_creation_of_the_service() -> None:
    """Not a time of its pods: after a restart, all pods would look changed."""
    times = TriggerTimes()
    assert times.observe(service(), [pod("a", since=at(5))]) == CREATED
    assert len(times) == 1


def test_later_it_is_the_earliest_new_time_of_a_pod() -> None:
    """A pod whose condition has not changed does not count, nor one that is gone."""
    times = TriggerTimes()
    times.observe(service(), [pod("a", since=at(1)), pod("b", since=at(1))])
    changed = [pod("a", since=at(1)), pod("b", since=at(7)), pod("c", since=at(6))]
    assert times.observe(service(), changed) == at(6)
    assert times.observe(service(), changed[:1]) == ""
    assert times.observe(service(), [pod("b", since=at(7))]) == at(7)


def test_changed_pods_alone_give_the_same_time() -> None:
    """So a sync does not read the other pods."""
    times = TriggerTimes()
    times.observe(service(), [pod("a", since=at(1)), pod("b", since=at(1))])
    assert times.observe_some(service(), [pod("b", since=at(7))], []) == at(7)
    assert times.observe_some(service(), [], ["b"]) == ""
    assert times.observe_some(service(), [pod("b", since=at(7))], []) == at(7)


def test_a_service_that_is_gone_is_forgotten() -> None:
    """A new service of its name begins without state."""
    times = TriggerTimes()
    times.observe(service(), [])
    times.forget("default/web")
    assert len(times) == 0
    times.forget("default/web")


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
