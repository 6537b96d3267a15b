"""A key is not synced again before the caches show what its sync wrote."""

import random
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.core import v1
from controller_manager.api.core.secrets import SECRETS, Secret
from controller_manager.api.meta import ObjectMeta
from controller_manager.client.rest.limits import SYNC_KEY
from controller_manager.informers.factory import ControllerInformers, InformerFactory
from controller_manager.observability.logs import silent_logger
from controller_manager.observability.metrics.client import InformerCollectors
from controller_manager.runtime.consistency import ConsistencyStore
from tests.clusters import Cluster

pytestmark = pytest.mark.looptime


def pod(version: str) -> v1.Pod:
    return v1.Pod(
        metadata=v1.PodMeta(name="p", namespace="n", resource_version=version)
    )


@pytest.fixture
def informers(cluster: Cluster) -> ControllerInformers:
    factory = InformerFactory(
        cluster.client,
        min_resync_period=0,
        rng=random.Random(1),
        logger=silent_logger(),
        metrics=InformerCollectors(CollectorRegistry(), "test"),
    )
    return ControllerInformers(factory)


async def test_a_key_awaits_its_write(informers: ControllerInformers) -> None:
    """Until its informer shows it; other keys do not wait."""
    informer = informers.informer(v1.PODS)
    store = ConsistencyStore(informers)
    informer.advanced("9")
    store.record("a", v1.PODS, pod("10"))
    store.record("a", v1.PODS, pod("7"))
    assert store.stale_cache("a") is informer
    assert store.stale_cache("b") is None
    informer.advanced("10")
    assert store.stale_cache("a") is None
    assert len(store) == 0
    store.record("a", v1.PODS, pod("11"))
    store.forget("a")
    assert store.stale_cache("a") is None


async def test_a_write_belongs_to_its_key(informers: ControllerInformers) -> None:
    """No key waits for a write outside of a sync, or when a gate disables this."""
    informer = informers.informer(v1.PODS)
    store = ConsistencyStore(informers)
    store.records_writes = True
    store.record_write(v1.PODS, pod("5"))
    assert len(store) == 0
    token = SYNC_KEY.set("n/web")
    store.record_write(v1.PODS, pod("5"))
    store.records_writes = False
    store.record_write(v1.PODS, pod("6"))
    SYNC_KEY.reset(token)
    assert store.stale_cache("n/web") is informer
    informer.advanced("5")
    assert store.stale_cache("n/web") is None


async def test_no_key_awaits_an_unseen_write(informers: ControllerInformers) -> None:
    """Another resource, or a watch of one name that is not this object's."""
    informers.informer(v1.NODES)
    one = replace(v1.CONFIG_MAPS, field_selector="metadata.name=kube-root-ca.crt")
    watched = informers.informer(one)
    store = ConsistencyStore(informers)
    store.record("a", v1.PODS, pod("5"))
    other = v1.ConfigMap(metadata=ObjectMeta(name="x", resource_version="5"))
    store.record("a", v1.CONFIG_MAPS, other)
    assert len(store) == 0
    root = v1.ConfigMap(
        metadata=ObjectMeta(name="kube-root-ca.crt", resource_version="5")
    )
    store.record("a", v1.CONFIG_MAPS, root)
    assert store.stale_cache("a") is watched


@pytest.mark.parametrize(("selected", "waits"), [("one", True), ("other", False)])
async def test_a_key_waits_for_a_watch_of_its_objects_type(
    informers: ControllerInformers, selected: str, *, waits: bool
) -> None:
    """Of secrets, some controllers watch one type only."""
    watched = informers.informer(replace(SECRETS, field_selector=f"type={selected}"))
    store = ConsistencyStore(informers)
    metadata = ObjectMeta(name="x", resource_version="5")
    store.record("a", SECRETS, Secret(metadata=metadata, type="one"))
    assert store.stale_cache("a") is (watched if waits else None)


async def test_versions_are_dropped_in_time(informers: ControllerInformers) -> None:
    """Keys that no change brings a sync to would pile up."""
    informer = informers.informer(v1.PODS)
    store = ConsistencyStore(informers)
    for number in range(1000):
        store.record(f"n/{number}", v1.PODS, pod(str(number + 1)))
        informer.advanced(str(number + 1))
    assert len(store) <= 64
