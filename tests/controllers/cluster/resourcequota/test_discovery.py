"""Resources that come and go, or cannot be listed; claims to devices."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from controller_manager.api.core.resources import RESOURCE_QUOTAS
from controller_manager.api.core.secrets import SECRETS
from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import JSON
from controller_manager.client.builder import Connections
from controller_manager.devcluster.scheme.statuses import Refusal
from controller_manager.options.gates import FeatureGates
from tests.clusters import make_config, run_manager
from tests.controllers.custom_resources import (
    DEFINITIONS,
    WIDGETS,
    definition,
    serve_versions,
)

from .counting import Failing, Quotas, Watching, config, controller_of, counting

pytestmark = pytest.mark.looptime


async def _define(cluster: Quotas) -> None:
    body = msgspec.json.encode(definition())
    await cluster.client.create_json(DEFINITIONS, "", body)


def _stop_serving(cluster: Quotas) -> None:
    kinds = cluster.server.catalogue
    found = kinds.find("example.com", "v1", "widgets")
    assert found is not None
    kinds.remove(found)


async def test_custom_resources_are_counted_once_known(cluster: Quotas) -> None:
    """Within seconds; until then the API server admits none. Upstream takes minutes."""
    cluster.add_quota({"count/widgets.example.com": "3"})
    async with counting(cluster):
        await asyncio.sleep(5)
        assert cluster.used() == {}
        await _define(cluster)
        with pytest.raises(Refusal, match="status unknown for quota: q"):
            cluster.put(WIDGETS, "a")
        await asyncio.sleep(3)
        assert cluster.used() == {"count/widgets.example.com": "0"}
        cluster.put(WIDGETS, "a")
        assert cluster.used() == {"count/widgets.example.com": "1"}
        cluster.put(WIDGETS, "b")
        assert cluster.used() == {"count/widgets.example.com": "2"}
        cluster.remove(WIDGETS, "a")
        await asyncio.sleep(0.2)
        assert cluster.used() == {"count/widgets.example.com": "1"}
        cluster.put(WIDGETS, "c")
        cluster.put(WIDGETS, "d")
        why = (
            "exceeded quota: q, requested: count/widgets.example.com=1, used: "
            "count/widgets.example.com=3, limited: count/widgets.example.com=3"
        )
        with pytest.raises(Refusal, match=why):
            cluster.put(WIDGETS, "e")


async def test_a_resource_served_no_more_is_not_watched(cluster: Quotas) -> None:
    cluster.add_quota({"count/widgets.example.com": "3"})
    await _define(cluster)
    cluster.put(WIDGETS, "a")
    async with controller_of(cluster) as controller:
        await asyncio.sleep(1)
        assert ("example.com", "widgets") in controller._monitors._monitors
        _stop_serving(cluster)
        await asyncio.sleep(40)
        assert ("example.com", "widgets") not in controller._monitors._monitors
        await asyncio.sleep(300)
        assert cluster.used() == {"count/widgets.example.com": "1"}


async def test_an_unlistable_resource_stops_no_other(cluster: Quotas) -> None:
    """Upstream counts nothing then. Once it can be listed it is counted."""
    cluster.add_quota({"secrets": "5", "count/leases.coordination.k8s.io": "5"})
    cluster.put(SECRETS, "s")
    transport = Failing(cluster.transport, broken="/leases")
    async with counting(cluster, transport):
        await asyncio.sleep(29)
        assert cluster.status() == {}
        await asyncio.sleep(2)
        assert cluster.used() == {"secrets": "1"}
        cluster.put(SECRETS, "t")
        assert cluster.used() == {"secrets": "2"}
        transport.broken = ""
        await asyncio.sleep(60)
        assert cluster.used() == {
            "count/leases.coordination.k8s.io": "0",
            "secrets": "2",
        }


async def test_a_later_unlistable_kind_stops_no_other(cluster: Quotas) -> None:
    cluster.add_quota({"count/widgets.example.com": "3", "secrets": "5"})
    transport = Failing(cluster.transport, broken="/widgets")
    async with counting(cluster, transport):
        await asyncio.sleep(60)
        assert cluster.used() == {"secrets": "0"}
        await _define(cluster)
        await asyncio.sleep(60)
        for number in range(3):
            cluster.put(SECRETS, f"s{number}")
            await asyncio.sleep(60)
            cluster.remove(SECRETS, f"s{number}")
            await asyncio.sleep(0.2)
            assert cluster.used() == {"secrets": "0"}
        cluster.add_quota({"configmaps": "5"}, name="later")
        await asyncio.sleep(1)
        assert cluster.used("later") == {"configmaps": "0"}
        transport.broken = ""
        await asyncio.sleep(120)
        assert cluster.used() == {"count/widgets.example.com": "0", "secrets": "0"}


@pytest.mark.parametrize("fault", [{"broken": "/apis"}, {"empty": True}])
async def test_watches_survive_it(cluster: Quotas, fault: dict[str, Any]) -> None:
    cluster.add_quota({"secrets": "5"})
    transport = Failing(cluster.transport)
    async with counting(cluster, transport):
        await asyncio.sleep(1)
        vars(transport).update(fault)
        await asyncio.sleep(100)
        cluster.put(SECRETS, "s")
        assert cluster.used() == {"secrets": "1"}
        cluster.remove(SECRETS, "s")
        await asyncio.sleep(0.2)
        assert cluster.used() == {"secrets": "0"}


async def test_a_start_without_discovery_counts_the_usual(cluster: Quotas) -> None:
    cluster.add_quota({"pods": "5", "secrets": "5"})
    transport = Failing(cluster.transport, broken="/apis")
    async with counting(cluster, transport):
        await asyncio.sleep(31)
        assert cluster.used() == {"pods": "0"}
        transport.broken = ""
        await asyncio.sleep(120)
        assert cluster.used() == {"pods": "0", "secrets": "0"}


async def test_nothing_is_watched_twice(cluster: Quotas) -> None:
    transport = Watching(cluster.transport)
    settings = make_config(controllers=("resourcequota", "garbagecollector"))
    await _define(cluster)
    async with cluster.manager(settings, transport):
        await asyncio.sleep(5)
        assert "/apis/example.com/v1/widgets" in transport.watched
        assert len(transport.watched) == len(set(transport.watched))
        _stop_serving(cluster)  # the garbage collector waits a minute longer
        await asyncio.sleep(200)


async def test_the_collectors_version_is_counted(cluster: Quotas) -> None:
    cluster.add_quota({"count/widgets.example.com": "3"})
    settings = make_config(controllers=("resourcequota", "garbagecollector"))
    await _define(cluster)
    connections = Connections(cluster.transport)
    async with run_manager(
        connections, cluster.clock, cluster.rng, settings
    ) as manager:
        await asyncio.sleep(5)
        cluster.put(WIDGETS, "a")
        await serve_versions(cluster.client, "v1", "v2")
        await asyncio.sleep(200)
        watched = [
            each.resource.api_version
            for each in manager.informers.all()
            if each.resource.kind == "Widget"
        ]
        assert watched == ["example.com/v2"]
        cluster.put(WIDGETS, "b")
        await asyncio.sleep(5)
        assert cluster.used() == {"count/widgets.example.com": "2"}


GPU = "requests.example.com/gpu"


def add_class(cluster: Quotas) -> None:
    spec = {"extendedResourceName": "example.com/gpu"}
    cluster.put("resource.k8s.io/v1/deviceclasses", "gpu", spec=spec)


def add_claim(cluster: Quotas, name: str, count: int, **metadata: Any) -> None:
    exactly = {"deviceClassName": "gpu", "count": count, "allocationMode": "ExactCount"}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    cluster.put("resource.k8s.io/v1/resourceclaims", name, metadata=metadata, spec=spec)


def add_pod(cluster: Quotas) -> JSON:
    """Add a pod that asks for two devices; return the metadata of its claims."""
    amounts = {"example.com/gpu": "2"}
    resources = {"requests": amounts, "limits": amounts}
    containers = [{"name": "c", "image": "app:v1", "resources": resources}]
    uid = cluster.put(PODS, "p", spec={"containers": containers})["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid}
    return {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [{**owner, "controller": True}],
    }


@pytest.mark.parametrize("broken", ["/deviceclasses", "/resourceclaims", "/apis"])
async def test_devices_keep_their_usage_for_now(cluster: Quotas, broken: str) -> None:
    """Pods may be charged for the same resource, and are not all."""
    add_class(cluster)
    add_claim(cluster, "a", 2)
    hard = {GPU: "9", "pods": "9"}
    cluster.add_quota(hard)
    status = {"hard": hard, "used": {GPU: "3", "pods": "1"}}
    cluster.edit(RESOURCE_QUOTAS, "q", status=status)
    transport = Failing(cluster.transport, broken=broken)
    async with counting(cluster, transport):
        await asyncio.sleep(100)
        assert cluster.used() == {GPU: "3", "pods": "0"}
        transport.broken = ""
        await asyncio.sleep(200)
        assert cluster.used() == {GPU: "2", "pods": "0"}


async def test_without_its_gate_no_class_stands_for_an_extended_resource() -> None:
    features = FeatureGates({"DRAExtendedResource": False})
    cluster = Quotas(features=features)
    add_class(cluster)
    cluster.add_quota({GPU: "9"})
    settings = replace(config(), features=features)
    async with counting(cluster, settings=settings):
        await asyncio.sleep(2)
        add_claim(cluster, "a", 2)
        assert cluster.used() == {GPU: "0"}
        await asyncio.sleep(2)
        assert cluster.used() == {GPU: "0"}


async def test_an_extended_resource_claim_is_charged_once(cluster: Quotas) -> None:
    add_class(cluster)
    cluster.add_quota({GPU: "50"})
    metadata = add_pod(cluster)
    for name, expected in (("a", "2"), ("b", "4")):
        add_claim(cluster, name, 2, **metadata)
        async with counting(cluster):
            await asyncio.sleep(2)
        assert cluster.used() == {GPU: expected}
    add_claim(cluster, "c", 2, **metadata)
    assert cluster.used() == {GPU: "6"}


async def test_the_api_server_charges_extended_resources_once(cluster: Quotas) -> None:
    add_class(cluster)
    cluster.add_quota({GPU: "50"})
    async with counting(cluster) as recording:
        await asyncio.sleep(2)
        metadata = add_pod(cluster)
        add_claim(cluster, "a", 3, **metadata)
        assert cluster.used() == {GPU: "3"}
        await asyncio.sleep(2)
        add_claim(cluster, "b", 2, **metadata)
        assert cluster.used() == {GPU: "5"}
        await asyncio.sleep(40)
        assert cluster.used() == {GPU: "5"}
    assert len(recording.writes) == 1
