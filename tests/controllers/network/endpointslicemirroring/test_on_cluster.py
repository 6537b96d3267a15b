"""Endpoints are mirrored, in memory and on virtual time."""

import asyncio
from dataclasses import replace
from typing import Any, Final

import pytest

from controller_manager.api.core.services import ENDPOINTS, SERVICES
from controller_manager.api.core.v1 import EVENTS, NAMESPACES
from controller_manager.api.discovery.v1 import ENDPOINT_SLICES, EndpointSlice
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import Resource, labels_of
from controller_manager.controllers.network.endpointslicemirroring import (
    MirroringOptions,
)
from controller_manager.controllers.network.endpointslicemirroring.slices import MANAGER
from tests.clusters import Cluster, make_config
from tests.controllers.network.backends import (
    Refusing,
    add_endpoints,
    add_service,
    delete,
    patch,
    subset_json,
)
from tests.controllers.responses import refusal
from tests.controllers.rows import rows
from tests.runtime.silence import SilentWatches

pytestmark = pytest.mark.looptime

CONFIG: Final = make_config(controllers=("endpointslicemirroring",))
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME: Final = "kubernetes.io/service-name"
SKIP: Final = "endpointslice.kubernetes.io/skip-mirror"
LOCK: Final = "control-plane.alpha.kubernetes.io/leader"


def add_hand_made(cluster: Cluster, *ips: str, name: str = "db") -> None:
    add_service(cluster, name, selector=None)
    add_endpoints(cluster, name, *ips)


def add_slice(cluster: Cluster, name: str, owner: str) -> None:
    reference = {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "name": "db",
        "uid": owner,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    labels = {SERVICE_NAME: "db", MANAGED_BY: MANAGER}
    cluster.add(
        "EndpointSlice",
        name,
        api="discovery.k8s.io/v1",
        metadata={"name": name, "labels": labels, "ownerReferences": [reference]},
        addressType="IPv4",
        endpoints=[{"addresses": ["10.0.0.1"], "conditions": {"ready": False}}],
        ports=[{"name": "", "port": 1, "protocol": "TCP"}],
    )


async def slices(cluster: Cluster) -> list[EndpointSlice]:
    await asyncio.sleep(1)
    page = await cluster.client.list_page(ENDPOINT_SLICES, "default")
    return page.items


async def addresses(cluster: Cluster) -> list[str]:
    return [
        ip
        for each in await slices(cluster)
        for endpoint in each.endpoints or ()
        for ip in endpoint.addresses or ()
    ]


async def test_slices_follow_endpoints_and_go_with_them() -> None:
    """The role of upstream suffices."""
    cluster = Cluster(rbac=True)
    config = make_config(
        controllers=("endpointslicemirroring",), use_service_account_credentials=True
    )
    async with cluster.confined_manager(config) as recording:
        add_hand_made(cluster, "10.0.0.1")
        seen = [await addresses(cluster)]
        change = {"subsets": [subset_json("10.0.0.1", "10.0.0.2", "fd00::1")]}
        await patch(cluster, ENDPOINTS, "db", change)
        seen.append(sorted(await addresses(cluster)))
        await delete(cluster, ENDPOINTS, "db")
        seen.append(await addresses(cluster))
    assert seen == [["10.0.0.1"], ["10.0.0.1", "10.0.0.2", "fd00::1"], []]
    assert [(each.method, each.status) for each in recording.writes] == [
        ("POST", 201),
        ("POST", 201),
        ("PUT", 200),
        ("DELETE", 200),
        ("DELETE", 200),
    ]


@rows(
    "resource change back",
    {
        "the label to skip them": (
            ENDPOINTS,
            {"metadata": {"labels": {SKIP: "true"}}},
            {"metadata": {"labels": {SKIP: None}}},
        ),
        "the lock of an election": (
            ENDPOINTS,
            {"metadata": {"annotations": {LOCK: "{}"}}},
            {"metadata": {"annotations": {LOCK: None}}},
        ),
        "a selector": (
            SERVICES,
            {"spec": {"selector": {"app": "web"}}},
            {"spec": {"selector": None}},
        ),
    },
)
async def test_some_endpoints_are_not_mirrored(
    cluster: Cluster, resource: Resource[Any], change: JSON, back: JSON
) -> None:
    async with cluster.manager(CONFIG):
        add_hand_made(cluster, "10.0.0.1")
        seen = [await addresses(cluster)]
        await patch(cluster, resource, "db", change)
        seen.append(await addresses(cluster))
        await patch(cluster, resource, "db", back)
        seen.append(await addresses(cluster))
        await delete(cluster, SERVICES, "db")
        seen.append(await addresses(cluster))
    assert seen == [["10.0.0.1"], [], ["10.0.0.1"], []]


@rows(
    "labels",
    {
        "somebody else manages it": {MANAGED_BY: "me"},
        "it is another service's": {SERVICE_NAME: "other"},
    },
)
async def test_a_relabelled_slice_is_replaced(cluster: Cluster, labels: JSON) -> None:
    """Upstream waits for ever for the slice that it has lost."""
    async with cluster.manager(CONFIG):
        add_hand_made(cluster, "10.0.0.1")
        (first,) = await slices(cluster)
        name = first.metadata.name
        await patch(cluster, ENDPOINT_SLICES, name, {"metadata": {"labels": labels}})
        found = {each.metadata.name: each for each in await slices(cluster)}
    mine = [
        each
        for each in found.values()
        if labels_of(each).get(MANAGED_BY) == labels_of(first)[MANAGED_BY]
        and labels_of(each).get(SERVICE_NAME) == "db"
    ]
    assert [each.endpoints for each in mine] == [first.endpoints]
    assert mine[0].metadata.name != name
    # As upstream: a slice that names a service without Endpoints is deleted.
    assert (name in found) == (MANAGED_BY in labels)


async def test_hand_made_slices_are_not_changed(cluster: Cluster) -> None:
    cluster.add(
        "EndpointSlice",
        "mine",
        api="discovery.k8s.io/v1",
        metadata={"name": "mine", "labels": {SERVICE_NAME: "db", MANAGED_BY: "me"}},
        addressType="IPv4",
        endpoints=[{"addresses": ["10.9.9.9"]}],
    )
    async with cluster.manager(CONFIG):
        add_hand_made(cluster, "10.0.0.1")
        both = await addresses(cluster)
        await delete(cluster, ENDPOINTS, "db")
        left = await addresses(cluster)
    assert (sorted(both), left) == (["10.0.0.1", "10.9.9.9"], ["10.9.9.9"])


async def test_changes_of_slices_are_collected_for_the_batch_period(
    cluster: Cluster,
) -> None:
    config = replace(
        CONFIG, controllers={MirroringOptions: MirroringOptions(batch_period=5.0)}
    )
    async with cluster.manager(config) as recording:
        add_hand_made(cluster, "10.0.0.1")
        (first,) = await slices(cluster)
        for number in range(3):
            labels = {"metadata": {"labels": {"mine": str(number)}}}
            await patch(cluster, ENDPOINT_SLICES, first.metadata.name, labels)
            await asyncio.sleep(1)
        early = len(recording.writes)
        await asyncio.sleep(5)
        (after,) = await slices(cluster)
    assert (early, len(recording.writes)) == (1, 2)
    assert after.metadata.labels == first.metadata.labels


async def test_slices_without_endpoints_go_at_the_start(cluster: Cluster) -> None:
    async with cluster.manager(CONFIG):
        add_hand_made(cluster, "10.0.0.1")
        assert await addresses(cluster) == ["10.0.0.1"]
    await delete(cluster, ENDPOINTS, "db")
    async with cluster.manager(CONFIG):
        assert await addresses(cluster) == []


async def test_addresses_that_are_left_out_are_reported(cluster: Cluster) -> None:
    """They exceed the limit, or are invalid; the messages are upstream's."""
    config = replace(
        CONFIG,
        controllers={MirroringOptions: MirroringOptions(max_endpoints_per_subset=2)},
    )
    async with cluster.manager(config):
        add_hand_made(cluster, "10.0.0.1", "10.0.0.2", "10.0.0.3")
        assert await addresses(cluster) == ["10.0.0.1", "10.0.0.2"]
        page = await cluster.client.list_page(EVENTS, "default")
    (event,) = page.items
    assert (
        event.involved_object.kind,
        event.involved_object.name,
        event.type,
        event.reason,
        event.message,
        event.source.component,
    ) == (
        "Endpoints",
        "db",
        "Warning",
        "TooManyAddressesToMirror",
        (
            "A max of 2 addresses can be mirrored to EndpointSlices per Endpoints "
            "subset. 1 addresses were skipped"
        ),
        "endpoint-slice-mirroring-controller",
    )


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_a_refused_write_is_tried_again(cluster: Cluster, method: str) -> None:
    """After a second, as upstream does."""
    transport = Refusing(cluster, method, refusal(500, "InternalError", "no"))
    async with cluster.manager(CONFIG, transport=transport):
        add_hand_made(cluster, "10.0.0.1")
        await asyncio.sleep(2)
        await patch(cluster, ENDPOINTS, "db", {"subsets": [subset_json("10.0.0.2")]})
        await asyncio.sleep(2)
        assert await addresses(cluster) == ["10.0.0.2"]
        await delete(cluster, ENDPOINTS, "db")
        await asyncio.sleep(2)
        assert await addresses(cluster) == []


async def test_nothing_is_created_in_a_namespace_that_is_being_deleted(
    cluster: Cluster,
) -> None:
    cluster.add_namespace("shop")
    hold = {"finalizers": ["example.com/hold"]}
    for kind in ("Service", "Endpoints"):
        found = cluster.server.catalogue.of("v1", kind)
        assert found is not None
        spec = {"spec": {"ports": [{"port": 1}]}} if kind == "Service" else {}
        obj = {"metadata": {"name": "db", **hold}, **spec}
        cluster.server.objects.create(found, "shop", obj)
    async with cluster.manager(CONFIG) as recording:
        await cluster.client.delete(NAMESPACES, "", "shop")
        change = {"subsets": [subset_json("10.0.0.1")]}
        await cluster.client.patch(ENDPOINTS, "shop", "db", change)
        await asyncio.sleep(60)
    assert [(each.method, each.status) for each in recording.writes] == [("POST", 403)]


@pytest.mark.parametrize("late", ["endpoints", "services"])
async def test_slices_stay_while_a_cache_lags_behind_them(
    cluster: Cluster, late: str
) -> None:
    watches = SilentWatches(cluster.transport)
    async with cluster.manager(CONFIG, transport=watches) as recording:
        watches.silence(late)
        add_hand_made(cluster, "10.0.0.1")
        owner = await cluster.client.get(ENDPOINTS, "default", "db")
        add_slice(cluster, "db-1", owner.metadata.uid)
        seen = [await addresses(cluster)]
        watches.speak(late)
        seen.append(await addresses(cluster))
        await delete(cluster, ENDPOINTS, "db")
        seen.append(await addresses(cluster))
    assert seen == [["10.0.0.1"], ["10.0.0.1"], []]
    assert [each.method for each in recording.writes] == ["PUT", "DELETE"]


async def test_a_slice_that_is_being_deleted_is_replaced_at_once(
    cluster: Cluster,
) -> None:
    """A finalizer keeps the old slice; without it, no endpoint would be missing."""
    async with cluster.manager(CONFIG):
        add_hand_made(cluster, "10.0.0.1")
        (first,) = await slices(cluster)
        name = first.metadata.name
        hold = {"metadata": {"finalizers": ["example.com/hold"]}}
        await patch(cluster, ENDPOINT_SLICES, name, hold)
        await delete(cluster, ENDPOINT_SLICES, name)
        both = await slices(cluster)
        change = {"subsets": [subset_json("10.0.0.2")]}
        await patch(cluster, ENDPOINTS, "db", change)
        found = {each.metadata.name: each for each in await slices(cluster)}
        release = {"metadata": {"finalizers": None}}
        await patch(cluster, ENDPOINT_SLICES, name, release)
        left = await addresses(cluster)
    assert [each.endpoints for each in both] == [first.endpoints] * 2
    assert found[name].endpoints == first.endpoints
    assert left == ["10.0.0.2"]
