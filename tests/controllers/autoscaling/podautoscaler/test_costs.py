"""The cost of autoscalers grows with their number, not faster."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest import mock

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.autoscaling.podautoscaler.selectors import (
    Overlaps,
)
from controller_manager.informers.store import Store
from tests.controllers.autoscaling.podautoscaler.on_cluster import (
    SYNC_PERIOD,
    Stage,
    config_of,
    cpu,
)
from tests.controllers.autoscaling.podautoscaler.test_faults import Faulty

pytestmark = pytest.mark.looptime

PERIODS: Final = 2


def add_autoscalers(stage: Stage, count: int) -> None:
    """Create autoscalers and their targets of two pods, whose usage is as wanted."""
    for number in range(count):
        name = f"web-{number}"
        labels = {"name": name}
        template: JSON = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "app:v1"}]},
        }
        spec = {"replicas": 2, "selector": labels, "template": template}
        status = {"replicas": 2}
        stage.cluster.add("ReplicationController", name, spec=spec, status=status)
        for pod in ("a", "b"):
            add_pod(stage, f"{name}-{pod}", labels)
        reference = {"apiVersion": "v1", "kind": "ReplicationController", "name": name}
        more = {"scaleTargetRef": reference}
        stage.add_autoscaler([cpu(50)], more=more, name=name)
    usage = {"c": {"cpu": "50m"}}
    stage.set_metrics(resource={"*": usage}, window="30s")


def add_pod(stage: Stage, name: str, labels: JSON) -> None:
    """Create a pod that is ready for a day."""
    since = "2025-12-31T00:00:00Z"
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
    container = {
        "name": "c",
        "image": "app:v1",
        "resources": {"requests": {"cpu": "100m"}},
    }
    stage.cluster.add(
        "Pod",
        name,
        metadata={"name": name, "labels": labels},
        spec={"containers": [container]},
        status={"phase": "Running", "startTime": since, "conditions": [ready]},
    )


@contextmanager
def counted_work() -> Iterator[Counter[str]]:
    """Count stores that are read as a whole, and autoscalers compared with pods."""
    work: Counter[str] = Counter()
    iterate, matching = Store.__iter__, Overlaps._matching

    def counted_scan(store: Store[Any]) -> Iterator[Any]:
        work["scans"] += 1
        return iterate(store)

    def counted_match(overlaps: Overlaps, namespace: str, labels: JSON) -> set[str]:
        for label in labels.items():
            work["compared"] += len(overlaps._buckets.get((namespace, *label), ()))
        return matching(overlaps, namespace, labels)

    with (
        mock.patch.object(Store, "__iter__", counted_scan),
        mock.patch.object(Overlaps, "_matching", counted_match),
    ):
        yield work


@pytest.mark.parametrize(
    "count",
    [5, 50, pytest.param(500, marks=pytest.mark.slow)],
)
async def test_each_autoscaler_costs_the_same_for_any_number_of_autoscalers(
    count: int,
) -> None:
    """Two requests in a period; no cache is read whole, no autoscaler is compared."""
    stage = Stage()
    add_autoscalers(stage, count)
    transport = Faulty(stage.cluster.transport)
    async with stage.cluster.manager(config_of(), transport) as recording:
        await asyncio.sleep(SYNC_PERIOD * 1.9)
        transport.requests.clear()
        with counted_work() as work:
            await asyncio.sleep(SYNC_PERIOD * PERIODS)
    sent = Counter(path.rpartition("/")[2] for _, _, path in transport.requests)
    assert sent == {"scale": count * PERIODS, "pods": count * PERIODS}
    assert work == {"compared": count * PERIODS}
    assert len(recording.writes) == count


@pytest.mark.slow
@pytest.mark.parametrize("concurrent_syncs", [8, 50])
async def test_more_concurrent_syncs_read_no_scale_twice(
    concurrent_syncs: int,
) -> None:
    """The metrics take a while, but a sync has a slot before it reads the scale."""
    stage = Stage()
    add_autoscalers(stage, 200)
    transport = Faulty(stage.cluster.transport)

    async def be_slow(request: Request) -> Response | None:
        if "/metrics.k8s.io/" in request.path:
            await asyncio.sleep(0.3)
        return None

    transport.faults.append(be_slow)
    config = config_of(concurrent_syncs=concurrent_syncs)
    async with stage.cluster.manager(config, transport):
        await asyncio.sleep(SYNC_PERIOD * 1.95)
    sent = Counter(
        path.rpartition("/")[2]
        for _, method, path in transport.requests
        if method == "GET"
    )
    assert (sent["scale"], sent["pods"]) == (200, 200)
