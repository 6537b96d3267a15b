"""The metrics of an informer: cached objects, restarts and relists."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.core.v1 import PODS
from controller_manager.client.client import Client
from controller_manager.informers.informer import SharedInformer
from controller_manager.observability.logs import silent_logger
from controller_manager.observability.metrics.informers import InformerCollectors
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
