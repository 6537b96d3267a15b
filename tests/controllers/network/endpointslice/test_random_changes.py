"""After random changes by users, nodes and pods, the slices are right in the end."""

import asyncio
import random
from contextlib import suppress
from dataclasses import replace

import msgspec
import pytest

from controller_manager.api.core.services import SERVICES
from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.api.discovery.v1 import ENDPOINT_SLICES
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import DeleteOptions, PatchType
from controller_manager.client.rest.errors import AlreadyExists, Conflict, NotFound
from controller_manager.controllers.network.endpointslice import (
    EndpointSliceOptions,
)
from tests.clusters import Cluster
from tests.controllers.network.endpointslice.user import (
    PORTS,
    ServiceUser,
    pod_status,
    slice_config,
)

pytestmark = pytest.mark.looptime


ZONE = "topology.kubernetes.io/zone"
LIMIT = 3
SERVICE_PATCHES: tuple[JSON, ...] = (
    {"spec": {"publishNotReadyAddresses": True}},
    {"spec": {"publishNotReadyAddresses": False}},
    {"spec": {"selector": {"app": "web", "tier": "a"}}},
    {"spec": {"selector": {"tier": None, "app": "web"}}},
    {"spec": {"ports": [{**PORTS[0], "targetPort": 9090}]}},
    {"spec": {"ports": PORTS}},
    {"spec": {"trafficDistribution": "PreferSameZone"}},
    {"spec": {"trafficDistribution": "PreferSameNode"}},
    {"spec": {"trafficDistribution": None}},
    {"metadata": {"labels": {"team": "x"}}},
    {"metadata": {"labels": {"team": None}}},
)


class Chaos:
    """Changes objects at random."""

    def __init__(self, user: ServiceUser, seed: int) -> None:
        self.user = user
        self.rng = random.Random(seed)

    async def step(self) -> None:
        rng = self.rng
        number = rng.randrange(9)
        pods, nodes = [self._pod] * 8, [self._node] * 5
        action = rng.choice((*pods, *nodes, self._service, self._slice))
        with suppress(Conflict, NotFound, AlreadyExists):
            await action(number)

    async def _pod(self, number: int) -> None:
        rng, name = self.rng, f"pod-{number}"
        match rng.choice(("add",) * 6 + ("delete", "ready", "unready", "label", "end")):
            case "add":
                node = f"n{rng.randrange(4)}"
                if node != "n3" or rng.random() < 0.5:
                    await self._add_pod(name, f"10.1.{rng.randrange(9)}.{number}", node)
            case "delete":
                options = DeleteOptions(grace_period_seconds=rng.choice((0, 30)))
                await self.user.client.delete(PODS, "default", name, options)
            case "label":
                tier = {"metadata": {"labels": {"tier": rng.choice(("a", "b", None))}}}
                await self.user.patch(PODS, name, tier)
            case "end":
                await self.user.patch_status(
                    PODS, name, {"status": {"phase": "Failed"}}
                )
            case what:
                pod = await self.user.client.get(PODS, "default", name)
                await self.user.set_status(
                    name, pod.status.pod_ip, ready=what == "ready"
                )

    async def _add_pod(self, name: str, ip: str, node: str) -> None:
        labels = {"app": "web", "tier": self.rng.choice("ab")}
        body = {
            "metadata": {"name": name, "labels": labels},
            "spec": {
                "nodeName": node,
                "containers": [{"name": "c", "image": "app:v1"}],
            },
        }
        encoded = msgspec.json.encode(body)
        await self.user.client.create_json(PODS, "default", encoded)
        await self.user.patch_status(PODS, name, {"status": pod_status(ip)})

    async def _node(self, number: int) -> None:
        name = f"n{number % 4}"
        match self.rng.choice(("zone", "zone", "add", "add", "delete", "heartbeat")):
            case "add":
                body = {"metadata": {"name": name, "labels": {ZONE: "new"}}}
                await self.user.client.create_json(NODES, "", msgspec.json.encode(body))
            case "delete":
                await self.user.delete(NODES, name)
            case "heartbeat":
                patch = {"status": {"conditions": [{"type": "X", "status": "True"}]}}
                await self.user.patch_status(NODES, name, patch)
            case "zone":
                zone = {
                    "metadata": {"labels": {ZONE: self.rng.choice(("a", "b", None))}}
                }
                await self.user.client.patch(NODES, "", name, zone, PatchType.MERGE)

    async def _service(self, _: int) -> None:
        await self.user.patch(SERVICES, "web", self.rng.choice(SERVICE_PATCHES))

    async def _slice(self, _: int) -> None:
        slices = await self.user.slices()
        if not slices:
            return
        name = self.rng.choice(slices).metadata.name
        if self.rng.random() < 0.5:
            await self.user.delete(ENDPOINT_SLICES, name)
        else:
            await self.user.patch(ENDPOINT_SLICES, name, {"endpoints": []})


async def expected(user: ServiceUser) -> list[tuple[object, ...]]:
    """Return the desired endpoints, from the pods, the nodes and the service."""
    service = await user.client.get(SERVICES, "default", "web")
    nodes = {
        each.metadata.name: (each.metadata.labels or {}).get(ZONE)
        for each in (await user.client.list_page(NODES)).items
    }
    spec, found = service.spec, []
    for pod in (await user.client.list_page(PODS, "default")).items:
        labels, node = pod.metadata.labels or {}, pod.spec.node_name
        if not (spec.selector or {}).items() <= labels.items():
            continue
        if pod.status.phase == "Failed" or not pod.status.pod_ip:
            continue
        published = spec.publish_not_ready_addresses
        if node not in nodes and not published:
            continue
        (condition,) = pod.status.conditions or ()
        serving = condition.status == "True"
        terminating = pod.metadata.deletion_timestamp is not None
        ready = published or (serving and not terminating)
        zone, distribution = nodes.get(node), spec.traffic_distribution
        found.append(
            (
                *(pod.metadata.uid, pod.status.pod_ip, node, zone),
                *(ready, serving, terminating, (spec.ports or ())[0].target_port),
                zone if ready and distribution else None,
                node if ready and distribution == "PreferSameNode" else None,
            )
        )
    return sorted(found, key=str)


async def shown(user: ServiceUser) -> list[tuple[object, ...]]:
    """Return the endpoints in the slices, in the same form."""
    found = []
    for each in await user.slices():
        assert len(each.endpoints or ()) <= LIMIT
        for one in each.endpoints or ():
            conditions, hints = one.conditions, one.hints
            zones = hints.for_zones if hints and hints.for_zones else ()
            nodes = hints.for_nodes if hints and hints.for_nodes else ()
            assert one.target_ref is not None
            found.append(
                (
                    *(one.target_ref.uid, (one.addresses or ("",))[0]),
                    *(one.node_name, one.zone),
                    *(conditions.ready, conditions.serving, conditions.terminating),
                    (each.ports or ())[0].port,
                    zones[0].name if zones else None,
                    nodes[0].name if nodes else None,
                )
            )
    return sorted(found, key=str)


@pytest.mark.parametrize("seed", range(12))
async def test_the_slices_have_the_desired_endpoints_in_the_end(
    cluster: Cluster, seed: int
) -> None:
    """A pod whose node is gone leaves at the next sync, so one is caused at the end."""
    user = ServiceUser(cluster)
    for each in range(3):
        user.add_node(f"n{each}")
    user.add_service()
    options = EndpointSliceOptions(max_endpoints_per_slice=LIMIT)
    config = replace(slice_config(), controllers={EndpointSliceOptions: options})
    user.add_pod("poke", "10.1.100.1")
    chaos = Chaos(user, seed)
    async with cluster.manager(config):
        for number in range(6):
            for _ in range(15):
                await chaos.step()
                await asyncio.sleep(chaos.rng.choice((0, 0, 0.01, 2)))
            await asyncio.sleep(200)
            await user.set_status("poke", "10.1.100.1", ready=bool(number % 2))
            await asyncio.sleep(5)
            assert await shown(user) == await expected(user)
