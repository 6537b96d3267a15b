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
from tests.clusters import make_config
from tests.controllers.network.backends import Refusing, Services, subset_json
from tests.controllers.responses import refusal
from tests.controllers.rows import rows
from tests.runtime.silence import SilentWatches

pytestmark = pytest.mark.looptime

CONFIG: Final = make_config(controllers=("endpointslicemirroring",))
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
SERVICE_NAME: Final = "kubernetes.io/service-name"
SKIP: Final = "endpointslice.kubernetes.io/skip-mirror"
LOCK: Final = "control-plane.alpha.kubernetes.io/leader"


def add_hand_made(cluster: Services, *ips: str, name: str = "db") -> None:
    cluster.add_service(name, selector=None)
    cluster.add_endpoints(name, *ips)


def add_slice(cluster: Services, name: str, owner: str) -> None:
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


async def slices(cluster: Services) -> list[EndpointSlice]:
    await asyncio.sleep(1)
    return cluster.slices()


async def addresses(cluster: Services) -> list[str]:
    return [
        ip
        for each in await slices(cluster)
        for endpoint in each.endpoints or ()
        for ip in endpoint.addresses or ()
    ]


async def test_slices_follow_endpoints_and_go_with_them() -> None:
    """The role of upstream suffices."""
    cluster = Services(rbac=True)
    config = make_config(
        controllers=("endpointslicemirroring",), use_service_account_credentials=True
    )
    async with cluster.confined_manager(config) as recording:
        add_hand_made(cluster, "10.0.0.1")
        seen = [await addresses(cluster)]
        cluster.edit(
            ENDPOINTS, "db", subsets=[subset_json("10.0.0.1", "10.0.0.2", "fd00::1")]
        )
        seen.append(sorted(await addresses(cluster)))
        cluster.remove(ENDPOINTS, "db")
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
    cluster: Services, resource: Resource[Any], change: JSON, back: JSON
) -> None:
    async with cluster.manager(CONFIG):
        add_hand_made(cluster, "10.0.0.1")
        seen = [await addresses(cluster)]
        cluster.edit(resource, "db", **change)
        seen.append(await addresses(cluster))
        cluster.edit(resource, "db", **back)
        seen.append(await addresses(cluster))
        cluster.remove(SERVICES, "db")
        seen.append(await addresses(cluster))
    assert seen == [["10.0.0.1"], [], ["10.0.0.1"], []]


@rows(
    "labels",
    {
        "somebody else manages it": {MANAGED_BY: "me"},
        "it is another service's": {SERVICE_NAME: "other"},
    },
)
async def test_a_relabelled_slice_is_replaced(cluster: Services, labels: JSON) -> None:
    """Upstream waits for ever for the slice that it has lost."""
    async with cluster.manager(CONFIG):
        add_hand_made(cluster, "10.0.0.1")
        (first,) = await slices(cluster)
        name = first.metadata.name
        cluster.edit(ENDPOINT_SLICES, name, metadata={"labels": labels})
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


async def test_hand_made_slices_are_not_changed(cluster: Services) -> None:
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
        cluster.remove(ENDPOINTS, "db")
        left = await addresses(cluster)
    assert (sorted(both), left) == (["10.0.0.1", "10.9.9.9"], ["10.9.9.9"])


async def test_changes_of_slices_are_collected_for_the_batch_period(
    cluster: Services,
) -> None:
    config = replace(
        CONFIG, controllers={MirroringOptions: MirroringOptions(batch_period=5.0)}
    )
    async with cluster.manager(config) as recording:
        add_hand_made(cluster, "10.0.0.1")
        (first,) = await slices(cluster)
        for number in range(3):
            cluster.edit(
                ENDPOINT_SLICES,
                first.metadata.name,
                metadata={"labels": {"mine": str(number)}},
            )
            await asyncio.sleep(1)
        early = len(recording.writes)
        await asyncio.sleep(5)
        (after,) = await slices(cluster)
    assert (early, len(recording.writes)) == (1, 2)
    assert after.metadata.labels == first.metadata.labels


async def test_slices_without_endpoints_go_at_the_start(cluster: Services) -> None:
    async with cluster.manager(CONFIG):
        add_hand_made(cluster, "10.0.0.1")
        assert await addresses(cluster) == ["10.0.0.1"]
    cluster.remove(ENDPOINTS, "db")
    async with cluster.manager(CONFIG):
        assert await addresses(cluster) == []


async def test_addresses_that_are_left_out_are_reported(cluster: Services) -> None:
    """They exceed the limit, or are invalid; the messages are upstream's."""
    config = replace(
        CONFIG,
        controllers={MirroringOptions: MirroringOptions(max_endpoints_per_subset=2)},
    )
    async with cluster.manager(config):
        add_hand_made(cluster, "10.0.0.1", "10.0.0.2", "10.0.0.3")
        assert await addresses(cluster) == ["10.0.0.1", "10.0.0.2"]
    (event,) = cluster.all(EVENTS)
    assert event["involvedObject"]["kind"] == "Endpoints"
    assert "".join(cluster.told()) == (
        "db Warning TooManyAddressesToMirror [endpoint-slice-mirroring-controller]: A "
        "max of 2 addresses can be mirrored to EndpointSlices per Endpoints subset. 1 "
        "addresses were skipped"
    )


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_a_refused_write_is_tried_again(cluster: Services, method: str) -> None:
    """After a second, as upstream does."""
    transport = Refusing(cluster, method, refusal(500, "InternalError", "no"))
    async with cluster.manager(CONFIG, transport=transport):
        add_hand_made(cluster, "10.0.0.1")
        await asyncio.sleep(2)
        cluster.edit(ENDPOINTS, "db", subsets=[subset_json("10.0.0.2")])
        await asyncio.sleep(2)
        assert await addresses(cluster) == ["10.0.0.2"]
        cluster.remove(ENDPOINTS, "db")
        await asyncio.sleep(2)
        assert await addresses(cluster) == []


async def test_nothing_is_created_in_a_namespace_that_is_being_deleted(
    cluster: Services,
) -> None:
    cluster.add_namespace("shop")
    hold = {"finalizers": ["example.com/hold"]}
    cluster.put(SERVICES, "db", "shop", metadata=hold, spec={"ports": [{"port": 1}]})
    cluster.put(ENDPOINTS, "db", "shop", metadata=hold)
    async with cluster.manager(CONFIG) as recording:
        cluster.remove(NAMESPACES, "shop")
        cluster.edit(ENDPOINTS, "db", "shop", subsets=[subset_json("10.0.0.1")])
        await asyncio.sleep(60)
    assert [(each.method, each.status) for each in recording.writes] == [("POST", 403)]


@pytest.mark.parametrize("late", ["endpoints", "services"])
async def test_slices_stay_while_a_cache_lags_behind_them(
    cluster: Services, late: str
) -> None:
    watches = SilentWatches(cluster.transport)
    async with cluster.manager(CONFIG, transport=watches) as recording:
        watches.silence(late)
        add_hand_made(cluster, "10.0.0.1")
        owner = cluster.stored(ENDPOINTS, "db")["metadata"]["uid"]
        add_slice(cluster, "db-1", owner)
        seen = [await addresses(cluster)]
        watches.speak(late)
        seen.append(await addresses(cluster))
        cluster.remove(ENDPOINTS, "db")
        seen.append(await addresses(cluster))
    assert seen == [["10.0.0.1"], ["10.0.0.1"], []]
    assert [each.method for each in recording.writes] == ["PUT", "DELETE"]


async def test_a_slice_that_is_being_deleted_is_replaced_at_once(
    cluster: Services,
) -> None:
    """A finalizer keeps the old slice; without it, no endpoint would be missing."""
    async with cluster.manager(CONFIG):
        add_hand_made(cluster, "10.0.0.1")
        (first,) = await slices(cluster)
        name = first.metadata.name
        cluster.edit(
            ENDPOINT_SLICES, name, metadata={"finalizers": ["example.com/hold"]}
        )
        cluster.remove(ENDPOINT_SLICES, name)
        both = await slices(cluster)
        cluster.edit(ENDPOINTS, "db", subsets=[subset_json("10.0.0.2")])
        found = {each.metadata.name: each for each in await slices(cluster)}
        cluster.edit(ENDPOINT_SLICES, name, metadata={"finalizers": None})
        left = await addresses(cluster)
    assert [each.endpoints for each in both] == [first.endpoints] * 2
    assert found[name].endpoints == first.endpoints
    assert left == ["10.0.0.2"]
