"""Kubelets send heartbeats; a stopped kubelet is noticed, and comes back."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest
import pytest_asyncio

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from tests.clusters import Cluster, make_config
from tests.devcluster.kubelet.objects import (
    CORE,
    PODS,
    condition,
    create_pod,
    events,
    send,
    status_of,
)

pytestmark = pytest.mark.looptime

NODE = f"{CORE}/nodes/node-0"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


def time(seconds: int) -> str:
    return f"2026-01-01T00:{seconds // 60:02}:{seconds % 60:02}Z"


@pytest_asyncio.fixture
async def leased(cluster: Cluster) -> Cluster:
    """Return a cluster that has the namespace of leases."""
    cluster.add_namespace("kube-node-lease")
    return cluster


async def annotate(cluster: Cluster, value: str | None) -> None:
    """Set or remove the annotation by which a kubelet is stopped."""
    annotations = {"devcluster/stopped": value}
    await send(cluster, "PATCH", NODE, {"metadata": {"annotations": annotations}})


async def renewals(cluster: Cluster) -> list[tuple[str, str]]:
    """Return the names of all leases, and when they were renewed."""
    leases = (await send(cluster, "GET", LEASES))["items"]
    return [(each["metadata"]["name"], each["spec"]["renewTime"]) for each in leases]


async def ready(cluster: Cluster) -> tuple[str, str, str]:
    """Return status, times of heartbeat and transition of the condition Ready."""
    conditions = (await send(cluster, "GET", NODE))["status"]["conditions"]
    each = next(each for each in conditions if each["type"] == "Ready")
    return each["status"], each["lastHeartbeatTime"], each["lastTransitionTime"]


async def taints(cluster: Cluster) -> list[str]:
    found = (await send(cluster, "GET", NODE))["spec"].get("taints", [])
    return [f"{each['key'].split('/')[-1]}:{each['effect']}" for each in found]


async def test_a_kubelet_renews_its_lease_every_ten_seconds(leased: Cluster) -> None:
    async with leased.nodes(count=1):
        await asyncio.sleep(25)
        (lease,) = (await send(leased, "GET", LEASES))["items"]
        node = await send(leased, "GET", NODE)
    assert lease["spec"] == {
        "holderIdentity": "node-0",
        "leaseDurationSeconds": 40,
        "renewTime": "2026-01-01T00:00:20.500000Z",
    }
    assert lease["metadata"]["name"] == "node-0"
    assert lease["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "name": "node-0",
            "uid": node["metadata"]["uid"],
        }
    ]


async def test_the_nodes_take_turns(leased: Cluster) -> None:
    async with leased.nodes(count=40):
        await asyncio.sleep(0.1)
        first = await renewals(leased)
        await asyncio.sleep(10)
        second = await renewals(leased)
        await asyncio.sleep(10)
        third = await renewals(leased)
    assert {each for _, each in first} == {"2026-01-01T00:00:00.000000Z"}
    assert len(first) == len(second) == 40
    assert Counter(each for _, each in second).most_common(1)[0][1] == 3
    apart = {
        parse_time(after) - parse_time(before)
        for (_, before), (_, after) in zip(second, third, strict=True)
    }
    assert apart == {timedelta(seconds=10)}


async def test_a_kubelet_reports_its_status_every_five_minutes(leased: Cluster) -> None:
    """And at once when somebody else has changed it."""
    async with leased.nodes(count=1):
        await asyncio.sleep(299)
        assert await ready(leased) == ("True", time(0), time(0))
        await asyncio.sleep(2)
        assert await ready(leased) == ("True", time(300), time(0))
        other = {"type": "NetworkUnavailable", "status": "False"}
        node = await send(leased, "GET", NODE)
        for each in node["status"]["conditions"]:
            each["status"] = "Unknown"
        body = {
            **node,
            "status": {"conditions": [*node["status"]["conditions"], other]},
        }
        await send(leased, "PUT", f"{NODE}/status", body)
        await asyncio.sleep(10)
        assert await ready(leased) == ("True", time(310), time(310))
        after = (await send(leased, "GET", NODE))["status"]
    conditions = {each["type"]: each["status"] for each in after["conditions"]}
    assert conditions == {
        "NetworkUnavailable": "False",
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
        "Ready": "True",
    }
    assert after["addresses"] == [
        {"type": "InternalIP", "address": "172.18.0.2"},
        {"type": "Hostname", "address": "node-0"},
    ]
    assert after["capacity"] == after["allocatable"]


async def test_a_stopped_node_is_missed_and_comes_back(leased: Cluster) -> None:
    config = make_config(controllers=("nodelifecycle",))
    async with leased.nodes(count=2), leased.manager(config):
        await create_pod(leased, "p")
        await asyncio.sleep(100)
        assert (await ready(leased))[0] == "True"
        await annotate(leased, "true")
        await asyncio.sleep(70)
        assert (await ready(leased))[0] == "Unknown"
        assert sorted(await taints(leased)) == [
            "unreachable:NoExecute",
            "unreachable:NoSchedule",
        ]
        assert condition(await status_of(leased, "p"), "Ready")[0] == "False"
        await annotate(leased, None)
        await asyncio.sleep(0.1)
        assert (await ready(leased))[0] == "True"
        assert condition(await status_of(leased, "p"), "Ready")[0] == "True"
        await asyncio.sleep(10)
        assert await taints(leased) == []
    told = [each for each in await events(leased) if "node-0" in each]
    started = (each for each in told if "Starting" in each or "NodeReady" in each)
    assert sorted(started) == [
        "node-0 Normal NodeReady: Node node-0 status is now: NodeReady",
        "node-0 Normal Starting: Starting kubelet.",
    ]


async def test_a_stopped_kubelet_does_nothing_with_its_pods(leased: Cluster) -> None:
    """It starts none and ends none, until it works again."""
    async with leased.nodes(count=1, start_delay=1):
        runs = {"devcluster/run-seconds": "5"}
        await create_pod(leased, "ends", restartPolicy="Never", annotations=runs)
        await create_pod(leased, "deleted", terminationGracePeriodSeconds=2)
        await asyncio.sleep(2)
        await annotate(leased, "true")
        await create_pod(leased, "new")
        await send(leased, "DELETE", f"{PODS}/deleted")
        await asyncio.sleep(60)
        assert (await status_of(leased, "ends"))["phase"] == "Running"
        assert (await status_of(leased, "new"))["phase"] == "Pending"
        marked = await send(leased, "GET", f"{PODS}/deleted")
        assert "deletionTimestamp" in marked["metadata"]
        await annotate(leased, "false")
        await asyncio.sleep(1.1)
        pods = (await send(leased, "GET", PODS))["items"]
    phases = {each["metadata"]["name"]: each["status"]["phase"] for each in pods}
    assert phases == {"ends": "Succeeded", "new": "Running"}


async def test_a_pod_that_goes_while_its_kubelet_is_stopped_is_forgotten(
    leased: Cluster,
) -> None:
    async with leased.nodes(count=1, start_delay=1):
        await create_pod(leased, "p")
        await asyncio.sleep(0.5)
        await annotate(leased, "true")
        await send(leased, "DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
        await asyncio.sleep(10)
        await create_pod(leased, "p")
        await asyncio.sleep(10)
        assert (await status_of(leased, "p"))["phase"] == "Pending"
        await annotate(leased, None)
        await asyncio.sleep(0.5)
        assert (await status_of(leased, "p"))["phase"] == "Pending"
        await asyncio.sleep(1)
        assert (await status_of(leased, "p"))["startTime"] == time(20)


async def test_a_deleted_node_stays_away(leased: Cluster) -> None:
    """Until a client creates it again: then its kubelet finds it."""
    async with leased.nodes(count=1):
        await asyncio.sleep(1)
        await send(leased, "DELETE", NODE)
        await asyncio.sleep(100)
        assert (await send(leased, "GET", f"{CORE}/nodes"))["items"] == []
        node = {"metadata": {"name": "node-0"}}
        await send(leased, "POST", f"{CORE}/nodes", node)
        await asyncio.sleep(10)
        assert (await ready(leased))[0] == "True"


@pytest.mark.parametrize("terminates", [True, False])
async def test_a_lease_that_is_refused_stops_no_kubelet(
    leased: Cluster, terminates: bool
) -> None:
    """The namespace ends, or somebody limits the leases; it tries again."""
    namespace = f"{CORE}/namespaces/kube-node-lease"
    async with leased.nodes(count=1):
        await asyncio.sleep(1)
        if terminates:
            await send(leased, "DELETE", namespace)
        else:
            spec = {"hard": {"count/leases.coordination.k8s.io": "0"}}
            quota = {"metadata": {"name": "none"}, "spec": spec, "status": spec}
            path = f"{namespace}/resourcequotas"
            await send(leased, "POST", path, quota)
            await send(leased, "PUT", f"{path}/none/status", quota)
        await send(leased, "DELETE", f"{LEASES}/node-0")
        await asyncio.sleep(30)
        assert await renewals(leased) == []
        await create_pod(leased, "p")
        await asyncio.sleep(280)
        assert (await status_of(leased, "p"))["phase"] == "Running"
        assert (await ready(leased))[1] == time(300)


NO_TIMES: JSON = {"lastHeartbeatTime": None, "lastTransitionTime": None}
"""The times that Go writes for a condition without them."""


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ([], []),
        ([{"type": "Ready", "status": "True"}], []),
        ([{"status": "True"}], [{"type": "", "status": "True", **NO_TIMES}]),
    ],
    ids=["no conditions", "no times", "no type"],
)
async def test_a_status_of_another_client_is_repaired(
    leased: Cluster, written: list[JSON], kept: list[JSON]
) -> None:
    """The kubelet writes its own conditions again, and goes on with its lease."""
    async with leased.nodes(count=1):
        await asyncio.sleep(1)
        node = await send(leased, "GET", NODE)
        conditions = node["status"]["conditions"]
        node["status"]["conditions"] = written
        await send(leased, "PUT", f"{NODE}/status", node)
        await asyncio.sleep(11)
        repaired = (await send(leased, "GET", NODE))["status"]["conditions"]
        assert await renewals(leased) == [("node-0", "2026-01-01T00:00:10.500000Z")]
    times = dict.fromkeys(("lastHeartbeatTime", "lastTransitionTime"), time(10))
    assert repaired == [*kept, *({**each, **times} for each in conditions)]
