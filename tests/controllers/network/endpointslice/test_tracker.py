"""The state of a service is used only while it is certain to be right."""

import random
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from controller_manager.api.discovery.v1 import EndpointSlice
from controller_manager.control.endpoints.slices import SliceActions, recycled
from controller_manager.controllers.network.endpointslice.slices import Backend, plan
from controller_manager.controllers.network.endpointslice.tracker import (
    ServiceTracker,
    SettledSlices,
)
from tests.clusters import EPOCH
from tests.control.endpoints.objects import service
from tests.controllers.network.endpointslice.test_slices import (
    HTTP,
    METRICS,
    TEMPLATE,
    backend,
)


def test_a_service_that_has_changed_is_not_known() -> None:
    """Not even if the objects are equal: another version may have other pods."""
    memory, web = ServiceTracker(_Stopped()), service()
    assert memory.of("default/web", web) is None
    known = memory.start("default/web", web, ("IPv4",))
    assert memory.of("default/web", web) is known
    assert memory.of("default/web", service()) is None


def test_after_an_hour_a_service_is_checked_completely() -> None:
    """As upstream does at every sync."""
    clock = _Stopped()
    memory, web = ServiceTracker(clock), service()
    memory.start("default/web", web, ("IPv4",))
    clock.passed = 3599.0
    assert memory.of("default/web", web) is not None
    clock.passed = 3600.0
    assert memory.of("default/web", web) is None


def test_changes_are_kept_in_order_for_known_services() -> None:
    memory, web = ServiceTracker(_Stopped()), service()
    memory.pod_changed("default/web", "early")
    known = memory.start("default/web", web, ("IPv4",))
    for name in ("b", "a", "b"):
        memory.pod_changed("default/web", name)
    assert list(known.changed) == ["b", "a"]
    memory.forget("default/web")
    assert memory.of("default/web", web) is None


class _Stopped:
    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return self.passed


LIMIT = 5


class World:
    """Pods and stored slices of one service, and a tracker of settled slices."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.pods: dict[str, Backend] = {}
        self.changed: set[str] = set()
        self.stored: dict[str, EndpointSlice] = {}
        self.settled_slices = SettledSlices()
        self.looked_at = 0
        self._names = iter(range(10**6))

    def churn(self) -> None:
        for _ in range(self.rng.randrange(4)):
            number = self.rng.randrange(40)
            name = f"p{number}"
            self.changed.add(name)
            if self.rng.random() < 0.4:
                self.pods.pop(name, None)
            else:
                ports = self.rng.choice([HTTP, HTTP, HTTP, METRICS])
                self.pods[name] = backend(number, ports, ready=self.rng.random() < 0.5)

    def meddle(self) -> None:
        """Change or delete a slice, as users do, or copy one, as a lost write does."""
        if not self.stored or self.rng.random() < 0.7:
            return
        name = self.rng.choice(sorted(self.stored))
        each = self.stored[name]
        match self.rng.randrange(4):
            case 0:
                del self.stored[name]
            case 1:
                self.stored[name] = replace(each, endpoints=(each.endpoints or ())[1:])
            case 2:
                self.store(each)
            case 3:
                metadata = replace(each.metadata, labels={"edited": "by hand"})
                self.stored[name] = replace(each, metadata=metadata)

    def store(self, each: EndpointSlice) -> None:
        name = f"s{next(self._names)}"
        metadata = replace(each.metadata, name=name, uid=name)
        self.stored[name] = replace(each, metadata=metadata)

    def sync(self) -> SliceActions:
        cached = tuple(self.stored.values())
        settled, names = self.settled_slices.start_sync(cached, self.changed)
        self.changed = set()
        self.looked_at += len(names)
        known = {each.metadata.name for each in settled}
        others = tuple(each for each in cached if each.metadata.name not in known)
        backends = tuple(self.pods[name] for name in sorted(names) if name in self.pods)
        planned = plan(TEMPLATE, others, settled, backends, LIMIT)
        changes = recycled(planned.changes, TEMPLATE.owner)
        self.write(changes)
        self.settled_slices.finish_sync(changes)
        return changes

    def write(self, changes: SliceActions) -> None:
        """Carry out the writes in the order of the writer.

        A desired endpoint that existed before exists after each write, with the same
        ports, ready or not.
        """
        wanted = {
            (str(each.endpoint.addresses), each.ports) for each in self.pods.values()
        }
        kept = self.addresses() & wanted
        for each in changes.create:
            self.store(each)
            assert kept <= self.addresses()
        for each in changes.update:
            self.stored[each.metadata.name] = replace(each)
            assert kept <= self.addresses()
        for each in changes.delete:
            del self.stored[each.metadata.name]
            assert kept <= self.addresses()

    def addresses(self) -> set[tuple[str, object]]:
        return {
            (str(endpoint.addresses), each.ports)
            for each in self.stored.values()
            for endpoint in each.endpoints or ()
        }

    def held(self) -> Iterator[tuple[str, object]]:
        for each in self.stored.values():
            for endpoint in each.endpoints or ():
                yield str(endpoint), each.ports

    def wanted(self) -> list[tuple[str, object]]:
        return sorted((str(each.endpoint), each.ports) for each in self.pods.values())


@pytest.mark.parametrize("seed", range(30))
def test_after_random_changes_the_slices_have_exactly_the_pods(seed: int) -> None:
    world = World(seed)
    for _ in range(150):
        world.churn()
        world.meddle()
        world.sync()
        assert sorted(world.held()) == world.wanted()
        assert all(len(each.endpoints or ()) <= LIMIT for each in world.stored.values())
        labels = {str(each.metadata.labels) for each in world.stored.values()}
        assert labels == {str(TEMPLATE.labels)}


@pytest.mark.parametrize("seed", range(10))
def test_after_a_sync_without_changes_no_pod_is_checked(seed: int) -> None:
    world = World(seed)
    for _ in range(50):
        world.churn()
        world.sync()
    assert world.sync().count == 0
    world.looked_at = 0
    assert world.sync().count == 0
    assert world.looked_at == 0


def test_after_a_change_of_one_pod_only_its_slice_is_checked() -> None:
    world = World(1)
    for number in range(100):
        world.pods[f"p{number}"] = backend(number)
    world.changed = set(world.pods)
    for _ in range(3):
        world.sync()
    world.looked_at = 0
    world.pods["p7"] = backend(7, ready=False)
    world.changed = {"p7"}
    changes = world.sync()
    assert (len(changes.update), changes.count, world.looked_at) == (1, 1, LIMIT)


def test_the_pods_of_a_slice_that_was_written_and_is_gone_are_checked() -> None:
    world = World(1)
    world.pods["p1"] = backend(1)
    world.changed = {"p1"}
    world.sync()
    world.stored.clear()
    world.sync()
    assert sorted(world.held()) == world.wanted()
