"""Four hundred replica sets whose pods a webhook refuses with a plain 500."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from tests.robustness.cluster import FaultyCluster, faulty_cluster, refusal
from tests.robustness.daemon import manager_of
from tests.robustness.objects import replica_sets, workload
from tests.robustness.situation import on_uvloop, seconds_until, until_time

pytestmark = pytest.mark.nightly

KEYS = 400
FIRST_TRIES = 80.0
"""Seconds that the first tries of all keys may take.

Of 20 requests a second, a few are retries; so 400 first tries take about 30 s.
"""

INHERITED = 7.0
"""Seconds after which a new object is no longer taken for one of a former leader.

Objects that a former leader may have made are read once before they are used.
"""

SETTLED = 60.0
"""Seconds after the first tries until all requests are retries.

Retries begin with a burst of a hundred.
"""

WINDOW = 20.0
RETRIES = 11.0
"""Per second: the overall rate limit is ten when the burst is used up."""

SERVED = 2.0
FLAGS = (
    "--controllers=replicaset-controller",
    "--kube-api-qps=20",
    "--kube-api-burst=30",
)
POSTS = "/api/v1/namespaces/failing/pods"


class Webhook:
    """Fails for each pod of a namespace, and remembers the owners of these pods."""

    def __init__(self) -> None:
        self.tried: set[str] = set()

    async def fail(self, request: web.BaseRequest) -> web.Response | None:
        if request.method != "POST" or request.path != POSTS:
            return None
        pod = msgspec.json.decode(await request.read())
        self.tried.add(pod["metadata"]["ownerReferences"][0]["name"])
        message = 'Internal error occurred: failed calling webhook "pods.example.com"'
        return refusal(500, "InternalError", message)


async def fill(cluster: FaultyCluster) -> None:
    """Create the replica sets, with the status that the failure gives them.

    So the first try of each key is one request, and not two.
    """
    kind = cluster.server.catalogue.find("apps", "v1", "replicasets")
    assert kind is not None
    failure = {
        "type": "ReplicaFailure",
        "status": "True",
        "reason": "FailedCreate",
        "message": "failed calling webhook",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {
        "replicas": 0,
        "terminatingReplicas": 0,
        "observedGeneration": 1,
        "conditions": [failure],
    }
    for number in range(KEYS):
        name = f"failing-{number}"
        created = await cluster.create(replica_sets("failing"), workload(name, 1))
        cluster.server.objects.update(
            kind, "failing", name, {**created, "status": status}, "status"
        )


async def seconds_of_healthy(cluster: FaultyCluster, name: str) -> float:
    """Create a healthy replica set; return how long it waits for its two pods."""
    wanted = len(cluster.stored("pods", "healthy")) + 2
    await cluster.create(replica_sets("healthy"), workload(name, 2))
    return await seconds_until(
        lambda: len(cluster.stored("pods", "healthy")) >= wanted, 5 * SERVED
    )


async def serve_healthy(cluster: FaultyCluster, until: float) -> list[float]:
    """Create healthy replica sets, one after the other; return how long each waited."""
    loop = asyncio.get_running_loop()
    waits: list[float] = []
    while (began := loop.time()) < until:
        waits.append(await seconds_of_healthy(cluster, f"healthy-{len(waits)}"))
        await until_time(began + 2.5)
    return waits


def reads(cluster: FaultyCluster) -> int:
    """Return how many reads of pods and replica sets of the namespace were sent."""
    return sum(
        each.method == "GET" and "/namespaces/failing/" in each.path
        for each in cluster.requests
    )


def tries(cluster: FaultyCluster, since: float) -> int:
    """Return how many creates of failing pods were sent since a time."""
    return sum(
        each.method == "POST" and each.path == POSTS and each.at > since
        for each in cluster.requests
    )


def test_keys_that_fail_are_retried_seldom_and_do_not_hold_up_healthy_ones(
    tmp_path: Path, figures: dict[str, object]
) -> None:
    """At the default rate limit; a 500 is an answer, so no object is read again."""

    async def situation() -> None:
        webhook = Webhook()
        async with faulty_cluster("failing", "healthy") as cluster:
            cluster.faults.append(webhook.fail)
            async with manager_of(cluster, tmp_path, *FLAGS) as manager:
                await manager.until_it_leads()
                loop = asyncio.get_running_loop()
                await until_time(loop.time() + INHERITED)
                await fill(cluster)
                figures["all keys tried after"] = await seconds_until(
                    lambda: len(webhook.tried) == KEYS, FIRST_TRIES
                )
                began = loop.time()
                figures["only retries after"] = await seconds_until(
                    lambda: tries(cluster, loop.time() - 5) <= 51, SETTLED
                )
                began = loop.time()
                waits = await serve_healthy(cluster, began + WINDOW)
                rate = tries(cluster, began) / (loop.time() - began)
                figures["tries a second"] = rate
                figures["reads in doubt"] = reads(cluster)
                figures["healthy ones waited"] = waits
                assert len(webhook.tried) == KEYS
                assert reads(cluster) == 0
                assert rate <= RETRIES
                assert max(waits) <= SERVED
                assert manager.is_running

    on_uvloop(situation)
