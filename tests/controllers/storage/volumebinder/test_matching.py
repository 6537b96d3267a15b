"""The volume that fits a claim best (index_test.go of upstream)."""

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.volumes import (
    BETA_STORAGE_CLASS,
    PERSISTENT_VOLUMES,
    PersistentVolume,
    VolumeSpec,
)
from controller_manager.api.json_objects import JSON
from controller_manager.clock import LoopClock
from controller_manager.controllers.storage.volumebinder.assume_cache import (
    AssumeCache,
    VolumeLocks,
)
from controller_manager.controllers.storage.volumebinder.matching import (
    VolumeIndex,
    WaitingClaims,
    kind_of_claim,
    kind_of_volume,
)
from controller_manager.controllers.storage.volumebinder.metrics import (
    Counts,
    Operations,
    VolumeBinderMetrics,
    plugin_of,
)
from controller_manager.observability.logs import silent_logger
from controller_manager.runtime.context import ControllerContext
from tests.clusters import EPOCH
from tests.controllers.alone import Caches
from tests.controllers.storage.volumebinder.fixtures import (
    BOUND_TO_MINE,
    COMPLETE,
    MINE,
    OF_ANOTHER,
    OF_FORMER,
    claim,
    volume,
)

ONCE, ROX, MANY = "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany"
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def index_of(*volumes: PersistentVolume) -> VolumeIndex:
    index = VolumeIndex()
    for each in volumes:
        index.put(each.metadata.name, each)
    return index


def best(index: VolumeIndex, wanted: PersistentVolumeClaim, *taken: str) -> str | None:
    found = index.reserved_for(wanted) or index.smallest(wanted, taken.__contains__)
    return None if found is None else found.metadata.name


X: JSON = {"selector": {"matchLabels": {"t": "x"}}}
GOLD: JSON = {"volumeAttributesClassName": "gold"}
BOTH_MODES: JSON = {"accessModes": [MANY, ONCE]}
READS: JSON = {"accessModes": [ONCE, ROX]}
mine = partial(volume, claimRef=MINE)


@pytest.mark.parametrize(
    ("volumes", "wanted", "expected"),
    [
        ([], {}, None),
        ([volume("a", "10Gi"), volume("b", "5Gi"), volume("c", "2Mi")], {}, "b"),
        ([volume("b"), volume("a")], {}, "a"),
        ([volume("a", "1024Mi"), volume("b", "1073741824")], {}, "a"),
        # Few access modes are better than a small size.
        ([volume("a", **BOTH_MODES), volume("b", "9Gi")], {}, "b"),
        ([volume("a", "9Gi", **BOTH_MODES), volume("b")], {"accessModes": [MANY]}, "a"),
        ([volume("a", accessModes=[ROX])], {}, None),
        ([volume("a", **READS)], {"accessModes": [ROX, ONCE]}, "a"),
        # Class, volume mode, attributes and labels.
        ([volume("a", storageClassName="slow")], {}, None),
        ([volume("a", storageClassName="")], {"storageClassName": ""}, "a"),
        ([volume("a", volumeMode="Block")], {}, None),
        ([volume("a", volumeMode=None)], {}, "a"),
        ([volume("a", **GOLD)], {}, None),
        ([volume("a"), volume("b", **GOLD)], GOLD, "b"),
        ([volume("a"), volume("b", "9Gi", metadata={"labels": {"t": "x"}})], X, "b"),
        ([volume("a")], X, None),
        # Volumes that no claim may have now.
        ([volume("a", phase="Released"), volume("b", phase="Pending")], {}, None),
        ([volume("a", metadata=DELETED)], {}, None),
        ([volume("a", claimRef=OF_ANOTHER), volume("b", claimRef=OF_FORMER)], {}, None),
        # Reserved ones: class and labels do not matter, all else does.
        ([volume("a"), mine("b", "50Gi")], {}, "b"),
        ([mine("a", storageClassName="slow")], {}, "a"),
        ([mine("a")], X, "a"),
        ([volume("a", phase="Bound", claimRef=BOUND_TO_MINE)], {}, "a"),
        ([mine("a", "1Mi"), volume("b")], {}, "b"),
        ([mine("a", metadata=DELETED)], {}, None),
        ([mine("a", volumeMode="Block")], {}, None),
        ([mine("a", accessModes=[ROX])], {}, None),
        # The one that refers to the uid: its binding had begun.
        ([mine("a"), volume("b", "9Gi", claimRef=BOUND_TO_MINE)], {}, "b"),
        # Upstream takes "a" here: it has fewer modes.
        ([volume("a"), mine("b", **READS)], {}, "b"),
    ],
)
def test_the_best_volume_for_a_claim(
    volumes: list[PersistentVolume], wanted: dict[str, Any], expected: str | None
) -> None:
    assert best(index_of(*volumes), claim(**wanted)) == expected
    assert best(index_of(*reversed(volumes)), claim(**wanted)) == expected


def test_a_volume_that_another_claim_is_getting_is_not_chosen() -> None:
    index = index_of(volume("a"), volume("b", "2Gi"))
    assert best(index, claim(), "a") == "b"
    assert best(index, claim(), "a", "b") is None


def test_the_beta_annotation_of_the_class_still_wins() -> None:
    """This is so in claims and in volumes."""
    annotations = {"volume.beta.kubernetes.io/storage-class": "old"}
    assert kind_of_claim(claim(annotations)).storage_class == "old"
    assert kind_of_volume(volume(annotations=annotations)).storage_class == "old"


STATES = st.builds(
    volume,
    st.sampled_from("abc"),
    st.sampled_from(["1Gi", "2Gi", "512Mi"]),
    phase=st.sampled_from(["Available", "Bound"]),
    claimRef=st.sampled_from([None, MINE, BOUND_TO_MINE, OF_ANOTHER]),
    accessModes=st.sampled_from([[ONCE], [ONCE, ROX], [MANY]]),
    storageClassName=st.sampled_from(["fast", "slow"]),
)


@given(st.lists(st.tuples(STATES, st.booleans()), max_size=12))
def test_an_index_shows_the_present_volumes_only(
    changes: list[tuple[PersistentVolume, bool]],
) -> None:
    """Volumes may be added, changed and removed in any order."""
    index, present = VolumeIndex(), dict[str, PersistentVolume]()
    for changed, stays in changes:
        name = changed.metadata.name
        index.put(name, changed if stays else None)
        present.pop(name, None)
        if stays:
            present[name] = changed
    assert best(index, claim()) == best(index_of(*present.values()), claim())
    assert len(index._volumes) == len(present)
    for name in present:
        index.put(name, None)
    assert vars(index) == vars(VolumeIndex())


def at(version: str, uid: str = "one") -> PersistentVolume:
    return volume(metadata={"uid": uid, "resourceVersion": version})


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        # The watch replaces a write with its own or a newer version, not an older one.
        (
            "show 1 = 1/0, assume 5 = 5/1, show 3 = 5/1, show 5 = 5/0, show 9 = 9/0",
            ["1", "5", "5", "5", "9"],
        ),
        # The answer may come after the event.
        ("show 7 = 7/0, assume 5 = 7/0", ["7"]),
        # A late answer about a former object of the same name is dropped, too.
        (
            "show 1 = 1/0, assume 5 = 5/1, remove v = -/0, assume 6 = -/0",
            ["1", "5", None],
        ),
        ("show 8 two = 8/0, assume 9 one = 8/0", ["8"]),
        # The watch may show only the new object of that name.
        ("show 1 = 1/0, assume 5 = 5/1, show 4 two = 4/0", ["1", "5", "4"]),
        # The server's store was restored from a backup: versions start again.
        (
            "show 1 = 1/0, assume 500 = 500/1, restore 1, show 2 = 2/0",
            ["1", "500", "2"],
        ),
    ],
)
def test_a_write_is_known_before_its_watch(steps: str, told: list[str | None]) -> None:
    """Each step is followed by the version that is known, and the assumed ones."""
    seen, caches = list[str | None](), Caches()
    informer = caches.informer(PERSISTENT_VOLUMES)

    def observe(key: str, obj: PersistentVolume | None) -> None:
        assert key == "v"
        seen.append(None if obj is None else obj.metadata.resource_version)

    context = SimpleNamespace(client=None, logger=silent_logger(), informers=caches)
    known_by = cast("ControllerContext", context), PERSISTENT_VOLUMES
    cache = AssumeCache(*known_by, (observe,))
    for step in steps.split(", "):
        what, _, expected = step.partition(" = ")
        match what.split():
            case "show", *version:
                informer.show(at(*version))
            case "assume", *version:
                cache.assume(at(*version))
            case "remove", key:
                informer.remove(key)
            case "restore", number:
                informer.epoch += int(number)
        if expected:
            found = cache.get("v")
            known = "-" if found is None else found.metadata.resource_version
            assert f"{known}/{len(cache._assumed)}" == expected, step
    assert seen == told


@pytest.mark.looptime
async def test_one_sync_at_a_time_locks_a_volume() -> None:
    locks, order = VolumeLocks(), list[str]()

    async def work(claim: str) -> None:
        async with locks.lock("v", claim):
            order.append(f"{claim} begins")
            await asyncio.sleep(1)
            order.append(f"{claim} ends")

    async with asyncio.TaskGroup() as group:
        group.create_task(work(""))
        await asyncio.sleep(0)
        assert not locks.is_taken("v", "ns/a")
        group.create_task(work("ns/a"))
        await asyncio.sleep(0)
        assert (locks.is_taken("v", "ns/a"), locks.is_taken("v", "ns/b")) == (
            False,
            True,
        )
    assert order == [" begins", " ends", "ns/a begins", "ns/a ends"]
    assert (len(locks._locks), locks.is_taken("v", "ns/b")) == (0, False)


LARGE = claim(resources={"requests": {"storage": "2Gi"}})
LABELLED = claim(selector={"matchLabels": {"a": "b"}})
BROKEN = claim(selector={"matchExpressions": [{"key": "a", "operator": "Near"}]})


@pytest.mark.parametrize(
    ("claims", "offered", "expected"),
    [
        ([], volume(), None),
        ([claim(), claim()], volume(), "0"),
        ([LARGE, LABELLED, BROKEN, claim()], volume(), "3"),
        ([LARGE, claim()], volume(size="2Gi"), "0"),
        ([claim(), LABELLED], volume(metadata={"labels": {"a": "b"}}), "0"),
        ([claim(storageClassName="slow")], volume(), None),
        ([claim(volumeMode="Block")], volume(), None),
        ([claim(accessModes=["ReadWriteMany"])], volume(), None),
        ([claim(volumeName="v"), claim(COMPLETE), claim()], volume(), "2"),
    ],
)
def test_a_volume_is_offered_to_the_oldest_claim_that_it_fits(
    claims: list[PersistentVolumeClaim], offered: PersistentVolume, expected: str | None
) -> None:
    """The claim names no volume, and never had one."""
    waiting = WaitingClaims()
    for number, each in enumerate(claims):
        waiting.put(str(number), each)
    assert waiting.one_for(offered, ()) == expected


def test_each_volume_is_offered_to_another_claim() -> None:
    waiting, offered = WaitingClaims(), list[str]()
    for number in range(50):
        waiting.put(str(number), claim())
    while (key := waiting.one_for(volume(), set(offered))) is not None:
        offered.append(key)
    assert offered == [str(number) for number in range(50)]


def test_claims_that_no_longer_wait_are_dropped() -> None:
    waiting = WaitingClaims()
    for key in "abc":
        waiting.put(key, claim())
    waiting.put("a", claim(volumeName="v"))
    waiting.put("b", claim(storageClassName="slow"))
    waiting.put("c", None)
    waiting.put("never", None)
    assert (len(waiting._kinds), waiting.one_for(volume(), ())) == (1, None)
    waiting.put("b", None)
    assert vars(waiting) == vars(WaitingClaims())


Samples = dict[tuple[str, ...], float]


class Setting:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = VolumeBinderMetrics(self.registry)

    def of(self, prefix: str) -> Samples:
        """Return the samples whose names begin so, with the values of their labels."""
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name.startswith(prefix) and not sample.name.endswith("_created")
        }


def test_volumes_and_claims_are_counted_as_they_are_now() -> None:
    """A series whose count is zero is removed; the older annotation of a class wins."""
    setting = Setting()
    counts = Counts(setting.metrics)
    old = {BETA_STORAGE_CLASS: "old"}
    counts.volume("a", volume("a", phase="Bound"))
    counts.volume("b", volume("b"))
    counts.volume("b", volume("b", phase="Bound", volumeMode="Block"))
    counts.volume("c", volume("c", phase="Failed", storageClassName=""))
    counts.volume("d", volume("d", annotations=old))
    counts.claim("ns/data", claim(status={"phase": "Bound"}))
    counts.claim("ns/more", claim(volumeAttributesClassName="gold"))
    counts.claim("ns/old", claim(old))
    plugin = "kubernetes.io/csi:csi.example.com"
    assert setting.of("pv_collector_") == {
        ("pv_collector_total_pv_count", plugin, "Filesystem"): 3,
        ("pv_collector_total_pv_count", plugin, "Block"): 1,
        ("pv_collector_bound_pv_count", "fast"): 2,
        ("pv_collector_unbound_pv_count", ""): 1,
        ("pv_collector_unbound_pv_count", "old"): 1,
        ("pv_collector_bound_pvc_count", "ns", "fast", ""): 1,
        ("pv_collector_unbound_pvc_count", "ns", "fast", "gold"): 1,
        ("pv_collector_unbound_pvc_count", "ns", "old", ""): 1,
    }
    for name in "abcd":
        counts.volume(name, None)
    for key in ("ns/data", "ns/more", "ns/old", "ns/never"):
        counts.claim(key, None)
    assert setting.of("pv_collector_") == {}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("csi", "kubernetes.io/csi:"),
        ("host_path", "kubernetes.io/host-path"),
        ("nfs", "kubernetes.io/nfs"),
        ("local", "kubernetes.io/local-volume"),
        ("iscsi", "N/A"),
    ],
)
def test_a_plugin_is_named_by_the_source_of_the_volume(source: str, name: str) -> None:
    kind: Any = next(
        each for each in VolumeSpec.__annotations__.items() if each[0] == source
    )[1]
    empty = next(each for each in kind.__args__ if each is not type(None))()
    assert plugin_of(VolumeSpec(**{source: empty})) == name


@pytest.mark.looptime
async def test_an_operation_is_measured_from_its_beginning_to_its_success() -> None:
    setting = Setting()
    operations = Operations(setting.metrics, LoopClock(EPOCH))
    operations.begin("ns/data", "csi.example.com", "provision")
    operations.begin("ns/data", "other", "provision")
    operations.fail("ns/data")
    operations.fail("ns/never")
    operations.end("ns/data")
    operations.end("ns/data")
    operations.begin("v", "N/A", "delete")
    operations.forget("v")
    assert len(operations._begun) == 0
    of_it = ("csi.example.com", "provision")
    assert setting.of("volume_operation_total_seconds_count") == {
        ("volume_operation_total_seconds_count", *of_it): 1
    }
    assert setting.of("volume_operation_errors_total") == {
        ("volume_operation_errors_total", "N/A", "delete"): 0,
        ("volume_operation_errors_total", *of_it): 1,
    }


def test_attempts_to_give_the_default_class_are_counted() -> None:
    setting = Setting()
    setting.metrics.default_class_given(succeeded=True)
    setting.metrics.default_class_given(succeeded=False)
    assert setting.of("retroactive_") == {
        ("retroactive_storageclass_total",): 2,
        ("retroactive_storageclass_errors_total",): 1,
    }
