"""The kubelets of many nodes send heartbeats."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from controller_manager.api.scalars import parse_time
from tests.clusters import Cluster
from tests.devcluster.requests import send

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


async def renewals(cluster: Cluster) -> list[str]:
    """Return when each lease was renewed."""
    leases = (await send(cluster, "GET", LEASES))["items"]
    return [each["spec"]["renewTime"] for each in leases]


@pytest.mark.looptime
async def test_the_nodes_take_turns(cluster: Cluster) -> None:
    cluster.add_namespace("kube-node-lease")
    async with cluster.nodes(count=40):
        await asyncio.sleep(0.1)
        first = await renewals(cluster)
        await asyncio.sleep(10)
        second = await renewals(cluster)
        await asyncio.sleep(10)
        third = await renewals(cluster)
    assert set(first) == {"2026-01-01T00:00:00.000000Z"}
    assert len(first) == len(second) == 40
    assert Counter(second).most_common(1)[0][1] == 3
    apart = {
        parse_time(after) - parse_time(before)
        for before, after in zip(second, third, strict=True)
    }
    assert apart == {timedelta(seconds=10)}
