"""Unused tokens are marked, then deleted; each run looks at all of them once a day."""

import asyncio
import json
from typing import Any

import pytest

from controller_manager.controllers.identity.legacytokencleaner.controller import (
    INVALID_SINCE,
    LAST_USED,
)
from tests.clusters import Cluster, Write
from tests.controllers.identity.legacytokencleaner.clusters import (
    DAY,
    PERIOD,
    add_token,
    add_unlisted,
    config,
    day,
    labels,
    track,
)

pytestmark = pytest.mark.looptime


async def test_an_unused_token_is_marked_and_then_deleted(cluster: Cluster) -> None:
    """One that is used in time stays, as does one that a user made."""
    track(cluster, "2025-01-01")
    add_token(cluster, "idle")
    add_token(cluster, "busy", **{"last-used": day(cluster, 5)})
    add_unlisted(cluster, "mine", "idle")
    await asyncio.sleep(PERIOD + 1)
    today = day(cluster)
    found = []
    writes: list[Write] = []
    for pause in (0, PERIOD - 1, DAY):
        await asyncio.sleep(pause)
        async with cluster.manager(config()) as recording:
            await asyncio.sleep(1)
            found.append(await labels(cluster))
        writes += recording.writes
    marked, kept, left = found
    assert marked["idle"] == {INVALID_SINCE: today}
    assert [*kept] == ["busy", "idle", "mine"]
    assert [*left] == ["busy", "mine"]
    assert left["mine"] == {}
    of_idle = [each for each in writes if each.path.endswith("/idle")]
    assert [each.method for each in of_idle] == ["PATCH", "DELETE"]
    preconditions = json.loads(of_idle[1].body)["preconditions"]
    assert {*preconditions} == {"uid", "resourceVersion"}


@pytest.mark.slow
async def test_a_token_that_is_used_after_its_mark_stays(cluster: Cluster) -> None:
    """An administrator has taken the mark away, and the API server notes the use."""
    track(cluster, "2025-01-01")
    add_token(cluster, "idle")
    await asyncio.sleep(PERIOD + 1)
    kind = cluster.server.catalogue.find("", "v1", "secrets")
    assert kind is not None
    async with cluster.manager(config()):
        await asyncio.sleep(1)
        stored = cluster.server.storage.collection("secrets").get(("default", "idle"))
        assert stored is not None
        used = {LAST_USED: day(cluster)}
        metadata = {**stored.obj["metadata"], "labels": used}
        body = {**stored.obj, "metadata": metadata}
        cluster.server.objects.update(kind, "default", "idle", body)
        await asyncio.sleep(PERIOD)
        assert (await labels(cluster))["idle"] == used


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"imagePullSecrets": [{"name": "idle"}]}, id="image pull"),
        pytest.param(
            {"volumes": [{"name": "v", "secret": {"secretName": "idle"}}]}, id="volume"
        ),
        pytest.param(
            {
                "volumes": [
                    {
                        "name": "v",
                        "projected": {"sources": [{"secret": {"name": "idle"}}]},
                    }
                ]
            },
            id="projected",
        ),
        pytest.param(
            {
                "volumes": [
                    {
                        "name": "v",
                        "csi": {
                            "driver": "d",
                            "nodePublishSecretRef": {"name": "idle"},
                        },
                    }
                ]
            },
            id="csi",
        ),
        pytest.param(
            {"volumes": [{"name": "v", "scaleIO": {"secretRef": {"name": "idle"}}}]},
            id="scaleIO",
        ),
    ],
)
async def test_a_token_that_a_pod_uses_stays(
    cluster: Cluster, spec: dict[str, Any]
) -> None:
    """Pods are read from the API server, so that no cache has to hold all this."""
    track(cluster, "2025-01-01")
    add_token(cluster, "idle")
    containers = [{"name": "c", "image": "i"}]
    cluster.add("Pod", "user", spec={"containers": containers, **spec})
    await asyncio.sleep(PERIOD + 1)
    async with cluster.manager(config()) as recording:
        await asyncio.sleep(1)
    assert recording.writes == []


async def test_a_token_in_the_environment_of_a_container_stays(
    cluster: Cluster,
) -> None:
    """As one variable, or as all of them; also of an init container."""
    track(cluster, "2025-01-01")
    for name in ("one", "all"):
        add_token(cluster, name)
    key = {"secretKeyRef": {"name": "one", "key": "token"}}
    one = {"name": "c", "image": "i", "env": [{"name": "T", "valueFrom": key}]}
    everything = {
        "name": "i",
        "image": "i",
        "envFrom": [{"secretRef": {"name": "all"}}],
    }
    cluster.add(
        "Pod", "user", spec={"containers": [one], "initContainers": [everything]}
    )
    await asyncio.sleep(PERIOD + 1)
    async with cluster.manager(config()) as recording:
        await asyncio.sleep(1)
    assert recording.writes == []


@pytest.mark.parametrize("since", ["", "yesterday", "late"])
async def test_nothing_is_cleaned_before_use_was_tracked_for_a_period(
    cluster: Cluster, since: str
) -> None:
    """Neither if the day is not known."""
    add_token(cluster, "idle")
    await asyncio.sleep(PERIOD + 1)
    if since:
        track(cluster, day(cluster, 1 - PERIOD / DAY) if since == "late" else since)
    async with cluster.manager(config()) as recording:
        await asyncio.sleep(60)
    assert recording.writes == []


@pytest.mark.slow
async def test_its_role_is_enough() -> None:
    """Pods, accounts and secrets are read as the manager itself."""
    cluster = Cluster(rbac=True)
    track(cluster, "2025-01-01")
    add_token(cluster, "idle")
    await asyncio.sleep(PERIOD + 1)
    settings = config(use_service_account_credentials=True)
    async with cluster.confined_manager(settings) as recording:
        await asyncio.sleep(1)
        assert INVALID_SINCE in (await labels(cluster))["idle"]
        await asyncio.sleep(PERIOD + DAY)
        assert await labels(cluster) == {}
    assert {each.status for each in recording.writes} == {200}
