"""The scheduler respects affinity and topology."""

import asyncio
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import CORE, PODS, condition
from tests.devcluster.requests import send

pytestmark = pytest.mark.looptime

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


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


async def zones(cluster: Cluster, *names: str) -> None:
    """Put the nodes in zones."""
    for number, zone in enumerate(names):
        patch = {"metadata": {"labels": {ZONE: zone}}}
        await send(cluster, "PATCH", f"{CORE}/nodes/node-{number}", patch)
    await asyncio.sleep(0.1)


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
        pod = await send(cluster, "GET", f"{PODS}/p")
    if node := pod["spec"].get("nodeName"):
        assert node in expected
    else:
        assert str(expected) in condition(pod["status"], "PodScheduled")[2]
