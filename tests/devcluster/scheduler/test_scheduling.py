"""The scheduler respects resources, ports, affinity, topology and priorities."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import (
    CORE,
    DEFAULT,
    PODS,
    condition,
    create_pod,
    events,
    send,
    status_of,
)
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def requesting(**requests: str) -> list[JSON]:
    """Return a container with requests; those of devices are limits as well."""
    named = {name.replace("_", "/"): amount for name, amount in requests.items()}
    limits = {name: amount for name, amount in named.items() if "/" in name}
    resources = {"requests": named, "limits": limits}
    return [{"name": "c", "image": "i", "resources": resources}]


def on_port(port: int, **more: Any) -> list[JSON]:
    ports = [{"containerPort": port, "hostPort": port, **more}]
    return [{"name": "c", "image": "i", "ports": ports}]


def selecting(app: str, key: str = HOSTNAME, **more: Any) -> JSON:
    selector = {"matchLabels": {"app": app}}
    return {"labelSelector": selector, "topologyKey": key, **more}


def attracted(app: str, key: str = HOSTNAME) -> JSON:
    return {"podAffinity": {REQUIRED: [selecting(app, key)]}}


def repelled(app: str, key: str = HOSTNAME, **more: Any) -> JSON:
    return {"podAntiAffinity": {REQUIRED: [selecting(app, key, **more)]}}


def spread(app: str, key: str = HOSTNAME, when: str = "DoNotSchedule") -> list[JSON]:
    return [{**selecting(app, key), "maxSkew": 1, "whenUnsatisfiable": when}]


async def create_app(cluster: Cluster, name: str, app: str, **spec: Any) -> None:
    spec.setdefault("containers", [{"name": "c", "image": "i"}])
    body = {"metadata": {"name": name, "labels": {"app": app}}, "spec": spec}
    await send(cluster, "POST", PODS, body)


async def nodes_of(cluster: Cluster) -> dict[str, str]:
    items = (await send(cluster, "GET", PODS))["items"]
    return {
        each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in items
    }


async def why(cluster: Cluster, name: str) -> str:
    return condition(await status_of(cluster, name), "PodScheduled")[2]


def message(total: int, reasons: str, *preemption: str) -> str:
    return (
        f"0/{total} nodes are available: {reasons}. no new claims to deallocate, "
        f"preemption: 0/{total} nodes are available: {', '.join(preemption)}."
    )


async def zones(cluster: Cluster, *names: str) -> None:
    """Put the nodes in zones."""
    for number, zone in enumerate(names):
        patch = {"metadata": {"labels": {ZONE: zone}}}
        await send(cluster, "PATCH", f"{CORE}/nodes/node-{number}", patch)
    await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    ("before", "wanted", "reasons", "preemption"),
    [
        ([], requesting(cpu="9"), "3 Insufficient cpu", [f"3 {NOT_HELPFUL}"]),
        (
            [],
            requesting(cpu="9", memory="1Ti", example_gpu="1"),
            "3 Insufficient cpu, 3 Insufficient example/gpu, 3 Insufficient memory",
            [f"3 {NOT_HELPFUL}"],
        ),
        (
            [requesting(cpu="4500m")] * 3,
            requesting(cpu="3501m"),
            "3 Insufficient cpu",
            [f"3 {NO_VICTIMS}"],
        ),
        (
            [on_port(80)] * 3,
            on_port(80),
            "3 node(s) didn't have free ports for the requested pod ports",
            [f"3 {NO_VICTIMS}"],
        ),
        (
            [on_port(80, hostIP="10.0.0.1")] * 3,
            on_port(80),
            "3 node(s) didn't have free ports for the requested pod ports",
            [f"3 {NO_VICTIMS}"],
        ),
    ],
)
async def test_a_pod_waits_for_resources_that_no_node_has(
    cluster: Cluster,
    before: Sequence[list[JSON]],
    wanted: list[JSON],
    reasons: str,
    preemption: list[str],
) -> None:
    """Until a pod that has it is gone; the message counts the reasons."""
    async with cluster.nodes(count=3, grace_scale=0):
        for number, containers in enumerate(before):
            await create_pod(cluster, f"p{number}", containers=containers)
        await create_pod(cluster, "p", containers=wanted)
        await asyncio.sleep(2)
        expected = message(3, reasons, *preemption)
        assert await why(cluster, "p") == expected
        assert await events(cluster) == [f"p Warning FailedScheduling: {expected}"]
        if before:
            await send(cluster, "DELETE", f"{PODS}/p1")
            await asyncio.sleep(2)
            assert (await nodes_of(cluster))["p"] == "node-1"


async def test_ports_of_other_addresses_and_protocols_are_free(
    cluster: Cluster,
) -> None:
    async with cluster.nodes(count=1):
        for number, more in enumerate(
            ({"hostIP": "10.0.0.1"}, {"hostIP": "10.0.0.2"}, {"protocol": "UDP"})
        ):
            await create_pod(cluster, f"p{number}", containers=on_port(80, **more))
        await asyncio.sleep(1)
        assert set((await nodes_of(cluster)).values()) == {"node-0"}


async def test_pods_that_have_ended_leave_their_resources(cluster: Cluster) -> None:
    async with cluster.nodes(count=1, start_delay=0):
        for number in range(3):
            await create_pod(
                cluster,
                f"p{number}",
                restartPolicy="Never",
                containers=requesting(cpu="5"),
                annotations={"devcluster/run-seconds": "10"},
            )
        for seconds, scheduled in ((5, 1), (10, 2), (10, 3)):
            await asyncio.sleep(seconds)
            found = await nodes_of(cluster)
            assert sum(map(bool, found.values())) == scheduled


@pytest.mark.parametrize(
    ("affinity", "constraints", "expected"),
    [
        (attracted("web"), [], "node-1"),
        (attracted("web", ZONE), [], ("node-0", "node-1")),
        (repelled("web"), [], ("node-0", "node-2")),
        (repelled("web", ZONE), [], "node-2"),
        (repelled("web", namespaces=["x"]), [], ("node-0", "node-1", "node-2")),
        (attracted("none"), [], "node(s) didn't match pod affinity rules"),
        ({}, spread("web", ZONE), "node-2"),
        ({}, spread("web", ZONE, "ScheduleAnyway"), "node-2"),
        (
            attracted("web"),
            spread("web"),
            (
                "1 node(s) didn't match pod topology spread constraints, "
                "2 node(s) didn't match pod affinity rules"
            ),
        ),
    ],
)
async def test_affinity_and_topology_choose_the_node(
    cluster: Cluster,
    affinity: JSON,
    constraints: list[JSON],
    expected: str | tuple[str, ...],
) -> None:
    """A pod `web` is on node-1, in the zone of node-0; node-2 is in another zone."""
    async with cluster.nodes(count=3):
        await zones(cluster, "a", "a", "b")
        await create_app(cluster, "web", "web", nodeSelector={HOSTNAME: "node-1"})
        await asyncio.sleep(0.1)
        more = {"affinity": affinity, "topologySpreadConstraints": constraints}
        await create_app(cluster, "p", "web", **more)
        await asyncio.sleep(0.1)
        node = (await nodes_of(cluster))["p"]
        if node:
            assert node in expected
        else:
            assert str(expected) in await why(cluster, "p")


async def test_the_first_pod_of_a_group_may_start_it(cluster: Cluster) -> None:
    """The others follow it to its node; a pod of another group must wait."""
    async with cluster.nodes(count=3):
        for number in range(3):
            await create_app(cluster, f"p{number}", "web", affinity=attracted("web"))
        await create_app(cluster, "other", "other", affinity=attracted("absent"))
        await asyncio.sleep(0.1)
        found = await nodes_of(cluster)
        assert found.pop("other") == ""
        assert len(set(found.values())) == 1
        await create_app(cluster, "late", "absent")
        await asyncio.sleep(2)
        found = await nodes_of(cluster)
        assert found["other"] == found["late"] != ""


async def test_a_pod_keeps_others_away(cluster: Cluster) -> None:
    """One replica for each node; a third one waits until one of them is gone."""
    async with cluster.nodes(count=2, grace_scale=0):
        for number in range(3):
            await create_app(cluster, f"p{number}", "web", affinity=repelled("web"))
        await create_app(cluster, "other", "web")
        await asyncio.sleep(1)
        found = await nodes_of(cluster)
        assert sorted(found.values()) == ["", "", "node-0", "node-1"]
        assert await why(cluster, "p2") == message(
            2, "2 node(s) didn't match pod anti-affinity rules", f"2 {NO_VICTIMS}"
        )
        assert await why(cluster, "other") == message(
            2,
            "2 node(s) didn't satisfy existing pods anti-affinity rules",
            f"2 {NO_VICTIMS}",
        )
        await send(cluster, "DELETE", f"{PODS}/p0")
        await asyncio.sleep(2)
        assert (await nodes_of(cluster))["p2"] == "node-0"


async def test_preferences_choose_among_the_nodes_that_fit(cluster: Cluster) -> None:
    taint = {"key": "a", "effect": "PreferNoSchedule"}
    preferred = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 10,
                    "preference": {
                        "matchExpressions": [
                            {"key": HOSTNAME, "operator": "In", "values": ["node-2"]}
                        ]
                    },
                }
            ]
        }
    }
    async with cluster.nodes(count=3):
        patch = {"spec": {"taints": [taint]}}
        await send(cluster, "PATCH", f"{CORE}/nodes/node-0", patch)
        await asyncio.sleep(0.1)
        for number in range(4):
            await create_pod(cluster, f"p{number}")
            await create_pod(cluster, f"q{number}", affinity=preferred)
        await asyncio.sleep(0.1)
        found = await nodes_of(cluster)
    assert {found[f"p{number}"] for number in range(4)} == {"node-1", "node-2"}
    assert {found[f"q{number}"] for number in range(4)} == {"node-2"}


async def _priority_classes(cluster: Cluster) -> None:
    for name, value, policy in (
        ("low", 1, "PreemptLowerPriority"),
        ("high", 100, "PreemptLowerPriority"),
        ("patient", 100, "Never"),
    ):
        body = {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy}
        path = "/apis/scheduling.k8s.io/v1/priorityclasses"
        await send(cluster, "POST", path, body)


async def test_a_pod_of_a_higher_priority_evicts_others(cluster: Cluster) -> None:
    """The least that makes room; the pod is nominated until they have gone."""
    async with cluster.nodes(count=1, start_delay=0, details=True):
        await _priority_classes(cluster)
        for name, cpu, priority in (
            ("small", "1", "low"),
            ("large", "4", "low"),
            ("important", "2", "high"),
        ):
            await create_pod(
                cluster,
                name,
                containers=requesting(cpu=cpu),
                priorityClassName=priority,
            )
        await asyncio.sleep(1)
        wanted = {"containers": requesting(cpu="4"), "priorityClassName": "high"}
        await create_pod(cluster, "p", **wanted)
        await asyncio.sleep(0.1)
        status = await status_of(cluster, "p")
        assert status["nominatedNodeName"] == "node-0"
        assert await why(cluster, "p") == "0/1 nodes are available: 1 Insufficient cpu."
        victim = await send(cluster, "GET", f"{PODS}/large")
        assert "deletionTimestamp" in victim["metadata"]
        assert condition(victim["status"], "DisruptionTarget") == (
            "True",
            "PreemptionByScheduler",
            "default-scheduler: preempting to accommodate a higher priority pod",
        )
        uid = (await send(cluster, "GET", f"{PODS}/p"))["metadata"]["uid"]
        assert f"large Normal Preempted: Preempted by pod {uid} on node node-0" in (
            await events(cluster)
        )
        # Its place is kept: a small pod of a low priority does not get it.
        await create_pod(
            cluster, "thief", containers=requesting(cpu="2"), priorityClassName="low"
        )
        await asyncio.sleep(33)
        found = await nodes_of(cluster)
    assert found == {
        "small": "node-0",
        "important": "node-0",
        "p": "node-0",
        "thief": "",
    }


async def test_a_pod_that_may_not_preempt_waits(cluster: Cluster) -> None:
    async with cluster.nodes(count=1):
        await _priority_classes(cluster)
        await create_pod(cluster, "low", containers=requesting(cpu="8"))
        wanted = {"containers": requesting(cpu="8"), "priorityClassName": "patient"}
        await create_pod(cluster, "p", **wanted)
        await asyncio.sleep(1)
        assert await why(cluster, "p") == (
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
            "preemption: not eligible due to preemptionPolicy=Never."
        )


async def test_a_budget_chooses_the_victims(cluster: Cluster) -> None:
    async with cluster.nodes(count=2, start_delay=0):
        await _priority_classes(cluster)
        budget = {
            "metadata": {"name": "web"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }
        path = f"/apis/policy/v1{DEFAULT.removeprefix(CORE)}/poddisruptionbudgets"
        await send(cluster, "POST", path, budget)
        for name in ("web", "other"):
            await create_app(cluster, name, name, containers=requesting(cpu="8"))
        await asyncio.sleep(1)
        wanted = {"containers": requesting(cpu="8"), "priorityClassName": "high"}
        await create_pod(cluster, "p", **wanted)
        await asyncio.sleep(1)
        items = (await send(cluster, "GET", PODS))["items"]
        deleted = [
            each["metadata"]["name"]
            for each in items
            if "deletionTimestamp" in each["metadata"]
        ]
    assert deleted == ["other"]


async def test_an_annotation_sets_the_resources_of_a_node(cluster: Cluster) -> None:
    """A pod that waits for it is scheduled when the kubelet has reported it."""
    async with cluster.nodes(count=2):
        containers = requesting(example_gpu="1")
        await create_pod(cluster, "p", containers=containers)
        await asyncio.sleep(1)
        assert await why(cluster, "p") == message(
            2, "2 Insufficient example/gpu", f"2 {NOT_HELPFUL}"
        )
        capacity = {"devcluster/capacity": "cpu=2,example/gpu=1,memory=much"}
        patch = {"metadata": {"annotations": capacity}}
        await send(cluster, "PATCH", f"{CORE}/nodes/node-1", patch)
        await asyncio.sleep(12)
        assert (await nodes_of(cluster))["p"] == "node-1"
        status = (await send(cluster, "GET", f"{CORE}/nodes/node-1"))["status"]
        found = status["allocatable"]
        assert (found["cpu"], found["memory"]) == ("2", "32Gi")


LISTENING: list[JSON] = [
    {"name": "web", "image": "web", "ports": [{"containerPort": 80, "hostPort": 8080}]}
]


@rows("spec", "reason", "said")
async def test_a_kubelet_rejects_pods_that_do_not_fit(
    cluster: Cluster, spec: JSON, reason: str, said: str
) -> None:
    """Another client has bound them to the node."""
    async with cluster.nodes(count=1, start_delay=0, details=True):
        first = [*requesting(cpu="5"), *LISTENING]
        await create_pod(cluster, "first", containers=first)
        await asyncio.sleep(1)
        await create_pod(cluster, "p", nodeName="node-0", **spec)
        await create_pod(
            cluster, "good", nodeName="node-0", containers=requesting(cpu="3")
        )
        await asyncio.sleep(1)
        status = await status_of(cluster, "p")
        assert (status["phase"], status["reason"], status["message"]) == (
            "Failed",
            reason,
            f"Pod was rejected: {said}",
        )
        assert f"p Warning {reason}: {said}" in await events(cluster)
        assert (await status_of(cluster, "good"))["phase"] == "Running"


async def test_resources_that_a_client_writes_into_a_node_stay(
    cluster: Cluster,
) -> None:
    async with cluster.nodes(count=1):
        path = f"{CORE}/nodes/node-0/status"
        patch = {"status": {"capacity": {"example.com/dongle": "4"}}}
        await send(cluster, "PATCH", path, patch)
        await asyncio.sleep(12)
        status = (await send(cluster, "GET", f"{CORE}/nodes/node-0"))["status"]
        assert status["allocatable"]["example.com/dongle"] == "4"
