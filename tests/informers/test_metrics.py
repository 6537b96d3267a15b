"""The metrics of an informer: cached objects, restarts and relists."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.core.v1 import CONFIG_MAPS, PODS
from controller_manager.api.meta import PartialObject, Resource
from controller_manager.client.rest.client import Client
from controller_manager.informers.factory import InformerFactory
from controller_manager.informers.informer import SharedInformer
from controller_manager.observability.exposition import expose
from controller_manager.observability.logs import silent_logger
from controller_manager.observability.metrics.client import InformerCollectors
from tests.clusters import Cluster
from tests.informers.test_informer import Faulty, add_pod

pytestmark = pytest.mark.looptime

LABELS = {"group": "", "name": "test", "resource": "pods", "version": "v1"}


async def test_restarts_and_relists_are_counted_by_cause(cluster: Cluster) -> None:
    """A clean end, garbage, an expired version; and the number of cached objects."""
    registry = CollectorRegistry()
    transport = Faulty(cluster)
    informer = SharedInformer(
        Client(transport, cluster.clock),
        PODS,
        resync_period=0,
        rng=cluster.rng,
        logger=silent_logger(),
        metrics=InformerCollectors(registry, "test").informer("", "v1", "pods"),
    )
    running = asyncio.create_task(informer.run())
    await informer.wait_for_sync()

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {**LABELS, **labels})

    def counts(name: str, *causes: str) -> list[float | None]:
        return [value(name, cause=cause) for cause in causes]

    causes = ("ended", "error", "timeout", "expired", "garbage")
    assert counts("informer_watch_restarts_total", *causes) == [0.0] * 5
    await asyncio.sleep(601)  # a watch is asked to last 10 minutes at most
    (ended, *others) = counts("informer_watch_restarts_total", *causes)
    assert ended in (1.0, 2.0)
    assert others == [0.0] * 4
    transport.spoil = lambda _: b'{"type":"ADDED","object":[1,2]}\n'
    await add_pod(cluster, "a")
    await asyncio.sleep(0.5)
    transport.spoil = lambda chunk: chunk
    await asyncio.sleep(10)
    await add_pod(cluster, "b")
    await asyncio.sleep(1)
    assert counts("informer_watch_restarts_total", "garbage") == [1.0]
    assert counts("informer_relists_total", "expired", "garbage") == [0.0, 1.0]
    assert value("informer_cached_objects") == 2
    assert value("informer_queued_items") == 0
    assert (value("informer_processing_latency_seconds_count") or 0) >= 2
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def factory_of(cluster: Cluster, registry: CollectorRegistry) -> InformerFactory:
    return InformerFactory(
        cluster.client,
        min_resync_period=0,
        rng=cluster.rng,
        logger=silent_logger(),
        metrics=InformerCollectors(registry, "test"),
    )


async def test_the_version_of_the_store_follows_all(cluster: Cluster) -> None:
    """As upstream's gauge, of any cache."""
    registry = CollectorRegistry()
    factory = factory_of(cluster, registry)
    pods = factory.informer(PODS)
    running = asyncio.create_task(factory.run())
    await factory.wait_for_sync()
    shown: list[float | None] = []
    versions: list[float] = []

    def look() -> None:
        name = "informer_store_resource_version"
        shown.append(registry.get_sample_value(name, LABELS))
        versions.append(float(pods.resource_version))

    look()
    await add_pod(cluster, "a")
    await asyncio.sleep(1)
    look()
    await cluster.client.delete(PODS, "default", "a")
    await asyncio.sleep(1)
    look()
    other = b'{"metadata":{"name":"c","namespace":"default"}}'
    await cluster.client.create_json(CONFIG_MAPS, "default", other)
    await asyncio.sleep(70)  # until the next bookmark
    look()
    assert shown == versions == sorted(set(versions))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    ("version", "shown"),
    [("7", 7), ("1234567890123456789", 567890123456789), ("12/34", 0), ("", 0)],
)
def test_a_version_is_shown_by_its_last_15_digits(version: str, shown: float) -> None:
    """A longer number would lose its last digits; no number is not shown."""
    registry = CollectorRegistry()
    metrics = InformerCollectors(registry, "test").informer("", "v1", "pods")
    metrics.at_version(version)
    name = "informer_store_resource_version"
    assert registry.get_sample_value(name, LABELS) == shown


async def test_the_series_of_a_removed_kind_go_away(cluster: Cluster) -> None:
    """All of them, once no controller watches it; a new watch starts at zero."""
    registry = CollectorRegistry()
    factory = factory_of(cluster, registry)
    custom = Resource("", "v1", "pods", "Pod", PartialObject, metadata_only=True)
    factory.informer(CONFIG_MAPS)
    running = asyncio.create_task(factory.run())
    await factory.wait_for_sync()
    before = expose(registry)
    first, _ = factory.monitor(custom), factory.monitor(custom)
    await add_pod(cluster, "a")
    await first.wait_for_sync()
    factory.stop_monitor(custom)
    watched = expose(registry)
    assert watched.count(b'resource="pods"') == 33
    factory.stop_monitor(custom)
    await asyncio.sleep(5)
    assert expose(registry) == before
    await factory.monitor(custom).wait_for_sync()
    assert expose(registry).count(b'resource="pods"') == 33
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_stopped_monitor_leaves_shared_series(cluster: Cluster) -> None:
    """They are the same ones: a controller asked for the cache after the monitor."""
    registry = CollectorRegistry()
    factory = factory_of(cluster, registry)
    factory.monitor(PODS)
    factory.informer(PODS)
    before = expose(registry)
    factory.stop_monitor(PODS)
    assert expose(registry) == before
