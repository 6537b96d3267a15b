"""The volume that fits a claim best (index_test.go of upstream)."""

import asyncio
from typing import Any

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
from tests.clusters import EPOCH
from tests.controllers.storage.contexts import Context
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


@pytest.mark.parametrize(
    ("volumes", "wanted", "expected"),
    [
        ([], {}, None),
        ([volume("a", "10Gi"), volume("b", "5Gi"), volume("c", "2Mi")], {}, "b"),
        ([volume("b"), volume("a")], {}, "a"),
        ([volume("a", "1024Mi"), volume("b", "1073741824")], {}, "a"),
        # Few access modes are better than a small size.
        (
            [volume("a", "1Gi", accessModes=[MANY, ONCE]), volume("b", "9Gi")],
            {},
            "b",
        ),
        (
            [volume("a", "9Gi", accessModes=[MANY, ONCE]), volume("b", "1Gi")],
            {"accessModes": [MANY]},
            "a",
        ),
        ([volume("a", accessModes=[ROX])], {}, None),
        ([volume("a", accessModes=[ONCE, ROX])], {"accessModes": [ROX, ONCE]}, "a"),
        # Class, volume mode, attributes and labels.
        ([volume("a", storageClassName="slow")], {}, None),
        ([volume("a", storageClassName="")], {"storageClassName": ""}, "a"),
        ([volume("a", volumeMode="Block")], {}, None),
        ([volume("a", volumeMode=None)], {}, "a"),
        ([volume("a", volumeAttributesClassName="gold")], {}, None),
        (
            [volume("a"), volume("b", volumeAttributesClassName="gold")],
            {"volumeAttributesClassName": "gold"},
            "b",
        ),
        (
            [volume("a", "1Gi"), volume("b", "9Gi", metadata={"labels": {"t": "x"}})],
            {"selector": {"matchLabels": {"t": "x"}}},
            "b",
        ),
        ([volume("a")], {"selector": {"matchLabels": {"t": "x"}}}, None),
        # Volumes that no claim may have now.
        ([volume("a", phase="Released"), volume("b", phase="Pending")], {}, None),
        ([volume("a", metadata=DELETED)], {}, None),
        ([volume("a", claimRef=OF_ANOTHER), volume("b", claimRef=OF_FORMER)], {}, None),
        # Reserved ones: class and labels do not matter, all else does.
        ([volume("a"), volume("b", "50Gi", claimRef=MINE)], {}, "b"),
        ([volume("a", claimRef=MINE, storageClassName="slow")], {}, "a"),
        (
            [volume("a", claimRef=MINE)],
            {"selector": {"matchLabels": {"t": "x"}}},
            "a",
        ),
        ([volume("a", phase="Bound", claimRef=BOUND_TO_MINE)], {}, "a"),
        ([volume("a", "1Mi", claimRef=MINE), volume("b")], {}, "b"),
        ([volume("a", claimRef=MINE, metadata=DELETED)], {}, None),
        ([volume("a", claimRef=MINE, volumeMode="Block")], {}, None),
        ([volume("a", claimRef=MINE, accessModes=[ROX])], {}, None),
        # The one that refers to the uid: its binding had begun.
        (
            [volume("a", claimRef=MINE), volume("b", "9Gi", claimRef=BOUND_TO_MINE)],
            {},
            "b",
        ),
        # Upstream takes "a" here: it has fewer modes.
        ([volume("a"), volume("b", claimRef=MINE, accessModes=[ONCE, ROX])], {}, "b"),
    ],
)
def test_the_best_volume_for_a_claim(
    volumes: list[PersistentVolume], wanted: dict[str, Any], expected: str | None
) -> None:
    """The order in which the volumes were added does not matter."""
    assert best(index_of(*volumes), claim(**wanted)) == expected
    assert best(index_of(*reversed(volumes)), claim(**wanted)) == expected


def test_a_volume_that_another_claim_is_getting_is_not_chosen() -> None:
    """The next volume is chosen."""
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


def at(version: int, uid: str = "one") -> PersistentVolume:
    """Return a version of the volume "v"."""
    return volume(metadata={"uid": uid, "resourceVersion": str(version)})


class Cache:
    """A cache, its informer, and the versions that its observer was told of."""

    def __init__(self) -> None:
        context = Context(None)
        self.informer = context.informer(PERSISTENT_VOLUMES)
        self.told: list[str | None] = []
        self.cache = AssumeCache(
            context.of_controller(), PERSISTENT_VOLUMES, (self._observe,)
        )

    def _observe(self, key: str, obj: PersistentVolume | None) -> None:
        assert key == "v"
        self.told.append(None if obj is None else obj.metadata.resource_version)

    @property
    def version(self) -> str | None:
        found = self.cache.get("v")
        return None if found is None else found.metadata.resource_version


def test_a_write_is_known_before_the_watch_shows_it() -> None:
    """The watch replaces it with its own or a newer version, not with an older one."""
    setting = Cache()
    setting.informer.show(at(1))
    setting.cache.assume(at(5))
    setting.informer.show(at(3))
    assert (setting.version, len(setting.cache._assumed)) == ("5", 1)
    setting.informer.show(at(5))
    assert (setting.version, len(setting.cache._assumed)) == ("5", 0)
    setting.informer.show(at(9))
    assert setting.told == ["1", "5", "5", "5", "9"]


def test_a_write_that_the_watch_has_shown_already_is_not_assumed() -> None:
    """The answer may come after the event."""
    setting = Cache()
    setting.informer.show(at(7))
    setting.cache.assume(at(5))
    assert (setting.version, len(setting.cache._assumed)) == ("7", 0)


def test_the_cache_drops_an_object_that_is_gone() -> None:
    """A late answer about a former object of the same name is dropped, too."""
    setting = Cache()
    setting.informer.show(at(1))
    setting.cache.assume(at(5))
    setting.informer.remove("v")
    assert (setting.version, len(setting.cache._assumed)) == (None, 0)
    setting.cache.assume(at(6))
    assert (setting.version, len(setting.cache._assumed)) == (None, 0)
    setting.informer.show(at(8, "two"))
    setting.cache.assume(at(9, "one"))
    assert (setting.version, len(setting.cache._assumed)) == ("8", 0)


def test_a_new_object_of_the_same_name_replaces_an_assumed_one() -> None:
    """The watch may show only the new object."""
    setting = Cache()
    setting.informer.show(at(1))
    setting.cache.assume(at(5))
    setting.informer.show(at(4, "two"))
    assert (setting.version, len(setting.cache._assumed)) == ("4", 0)


def test_assumed_versions_end_when_the_store_is_restored() -> None:
    """The server's store was restored from a backup: versions start again."""
    setting = Cache()
    setting.informer.show(at(1))
    setting.cache.assume(at(500))
    setting.informer.epoch += 1
    setting.informer.show(at(2))
    assert (setting.version, len(setting.cache._assumed)) == ("2", 0)


@pytest.mark.looptime
async def test_one_sync_at_a_time_locks_a_volume() -> None:
    """A claim that waits for the lock keeps others from choosing the volume."""
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
    """Claims that got an offer before do not count."""
    waiting, offered = WaitingClaims(), set[str]()
    for number in range(500):
        waiting.put(str(number), claim())
    for number in range(500):
        assert waiting.one_for(volume(), offered) == str(number)
        offered.add(str(number))
    assert waiting.one_for(volume(), offered) is None


def test_claims_that_no_longer_wait_are_dropped() -> None:
    """They have a volume, want another kind, or are gone."""
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
    """Metrics in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = VolumeBinderMetrics(self.registry)

    def of(self, prefix: str) -> Samples:
        """Return the samples whose names begin so, with the values of their labels."""
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name.startswith(prefix)
        }


def test_the_storage_class_is_that_of_the_annotation_if_there_is_one() -> None:
    """The annotation is older than the field, and wins over it."""
    setting = Setting()
    counts = Counts(setting.metrics)
    old = {BETA_STORAGE_CLASS: "old"}
    counts.volume("a", volume("a", annotations=old))
    counts.claim("ns/data", claim(annotations=old))
    counted = {key for key in setting.of("pv_collector_") if "unbound" in key[0]}
    assert counted == {
        ("pv_collector_unbound_pv_count", "old"),
        ("pv_collector_unbound_pvc_count", "ns", "old", ""),
    }


def test_volumes_and_claims_are_counted_as_they_are_now() -> None:
    """A series whose count is zero is removed."""
    setting = Setting()
    counts = Counts(setting.metrics)
    counts.volume("a", volume("a", phase="Bound"))
    counts.volume("b", volume("b"))
    counts.volume("b", volume("b", phase="Bound", volumeMode="Block"))
    counts.volume("c", volume("c", phase="Failed", storageClassName=""))
    counts.claim("ns/data", claim(status={"phase": "Bound"}))
    counts.claim("ns/more", claim(volumeAttributesClassName="gold"))
    plugin = "kubernetes.io/csi:csi.example.com"
    assert setting.of("pv_collector_") == {
        ("pv_collector_total_pv_count", plugin, "Filesystem"): 2,
        ("pv_collector_total_pv_count", plugin, "Block"): 1,
        ("pv_collector_bound_pv_count", "fast"): 2,
        ("pv_collector_unbound_pv_count", ""): 1,
        ("pv_collector_bound_pvc_count", "ns", "fast", ""): 1,
        ("pv_collector_unbound_pvc_count", "ns", "fast", "gold"): 1,
    }
    for name in "abc":
        counts.volume(name, None)
    for key in ("ns/data", "ns/more", "ns/never"):
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
    """As GetFullQualifiedPluginNameForVolume does."""
    kind: Any = next(
        each for each in VolumeSpec.__annotations__.items() if each[0] == source
    )[1]
    empty = next(each for each in kind.__args__ if each is not type(None))()
    assert plugin_of(VolumeSpec(**{source: empty})) == name


@pytest.mark.looptime
async def test_an_operation_is_measured_from_its_beginning_to_its_success() -> None:
    """Failures are counted meanwhile; an operation of a deleted object is dropped."""
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
    """A failed attempt counts as an attempt and as an error."""
    setting = Setting()
    setting.metrics.default_class_given(succeeded=True)
    setting.metrics.default_class_given(succeeded=False)
    counts = setting.of("retroactive_")
    assert counts["retroactive_storageclass_total",] == 2
    assert counts["retroactive_storageclass_errors_total",] == 1
