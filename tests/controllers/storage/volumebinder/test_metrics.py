"""The metrics of volumes and claims (metrics_test.go and pv_controller_test.go)."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.core.volumes import BETA_STORAGE_CLASS, VolumeSpec
from controller_manager.clock import LoopClock
from controller_manager.controllers.storage.volumebinder.metrics import (
    Counts,
    Operations,
    VolumeBinderMetrics,
    plugin_of,
)
from tests.clusters import EPOCH
from tests.controllers.storage.volumebinder.fixtures import claim, volume

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
