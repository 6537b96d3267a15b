"""Resources that come and go, or cannot be listed; claims to devices."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.builder import Connections
from controller_manager.client.rest.errors import Forbidden
from controller_manager.options.gates import FeatureGates
from tests.clusters import Cluster, make_config, run_manager
from tests.controllers.cluster.resourcequota.counting import (
    Failing,
    User,
    Watching,
    config,
    controller_of,
    counting,
)
from tests.controllers.custom_resources import (
    DEFINITIONS,
    WIDGETS,
    definition,
    serve_versions,
)

pytestmark = pytest.mark.looptime


@pytest.fixture
def user(cluster: Cluster) -> User:
    return User(cluster)


async def _define(user: User) -> None:
    body = msgspec.json.encode(definition())
    await user.cluster.client.create_json(DEFINITIONS, "", body)


async def _create_widget(user: User, name: str) -> None:
    body = msgspec.json.encode({"metadata": {"name": name}})
    await user.cluster.client.create_json(WIDGETS, "default", body)


async def test_custom_resources_are_counted_once_they_are_known(user: User) -> None:
    """Within seconds; until then the API server admits none. Upstream takes minutes."""
    user.add_quota({"count/widgets.example.com": "3"})
    async with counting(user.cluster):
        await asyncio.sleep(5)
        assert user.used() == {}
        await _define(user)
        with pytest.raises(Forbidden, match="status unknown for quota: q"):
            await _create_widget(user, "a")
        await asyncio.sleep(3)
        assert user.used() == {"count/widgets.example.com": "0"}
        await _create_widget(user, "a")
        assert user.used() == {"count/widgets.example.com": "1"}
        await _create_widget(user, "b")
        assert user.used() == {"count/widgets.example.com": "2"}
        await user.delete("widgets", "a", "example.com")
        await asyncio.sleep(0.2)
        assert user.used() == {"count/widgets.example.com": "1"}
        await _create_widget(user, "c")
        await _create_widget(user, "d")
        why = (
            "exceeded quota: q, requested: count/widgets.example.com=1, used: "
            "count/widgets.example.com=3, limited: count/widgets.example.com=3"
        )
        with pytest.raises(Forbidden, match=why):
            await _create_widget(user, "e")


async def test_a_resource_that_is_not_served_any_more_is_not_watched(
    user: User,
) -> None:
    user.add_quota({"count/widgets.example.com": "3"})
    await _define(user)
    await _create_widget(user, "a")
    async with controller_of(user.cluster) as controller:
        await asyncio.sleep(1)
        assert ("example.com", "widgets") in controller._monitors._monitors
        kinds = user.cluster.server.catalogue
        found = kinds.find("example.com", "v1", "widgets")
        assert found is not None
        kinds.remove(found)
        await asyncio.sleep(40)
        assert ("example.com", "widgets") not in controller._monitors._monitors
        await asyncio.sleep(300)
        assert user.used() == {"count/widgets.example.com": "1"}


async def test_a_resource_that_cannot_be_listed_does_not_stop_the_others(
    user: User,
) -> None:
    """Upstream counts nothing then. Once it can be listed it is counted."""
    user.add_quota({"secrets": "5", "count/leases.coordination.k8s.io": "5"})
    user.cluster.add("Secret", "s")
    transport = Failing(user.cluster.transport, broken="/leases")
    async with counting(user.cluster, transport):
        await asyncio.sleep(29)
        assert user.status() == {}
        await asyncio.sleep(2)
        assert user.used() == {"secrets": "1"}
        user.cluster.add("Secret", "t")
        assert user.used() == {"secrets": "2"}
        transport.broken = ""
        await asyncio.sleep(60)
        assert user.used() == {"count/leases.coordination.k8s.io": "0", "secrets": "2"}


async def test_a_kind_that_comes_later_and_cannot_be_listed_stops_no_other(
    user: User,
) -> None:
    user.add_quota({"count/widgets.example.com": "3", "secrets": "5"})
    transport = Failing(user.cluster.transport, broken="/widgets")
    async with counting(user.cluster, transport):
        await asyncio.sleep(60)
        assert user.used() == {"secrets": "0"}
        await _define(user)
        await asyncio.sleep(60)
        for number in range(3):
            user.cluster.add("Secret", f"s{number}")
            await asyncio.sleep(60)
            await user.delete("secrets", f"s{number}")
            await asyncio.sleep(0.2)
            assert user.used() == {"secrets": "0"}
        user.add_quota({"configmaps": "5"}, name="later")
        await asyncio.sleep(1)
        assert user.used("later") == {"configmaps": "0"}
        transport.broken = ""
        await asyncio.sleep(120)
        assert user.used() == {"count/widgets.example.com": "0", "secrets": "0"}


@pytest.mark.parametrize("fault", [{"broken": "/apis"}, {"empty": True}])
async def test_a_failing_discovery_keeps_the_watches(
    user: User, fault: dict[str, Any]
) -> None:
    user.add_quota({"secrets": "5"})
    transport = Failing(user.cluster.transport)
    async with counting(user.cluster, transport):
        await asyncio.sleep(1)
        vars(transport).update(fault)
        await asyncio.sleep(100)
        user.cluster.add("Secret", "s")
        assert user.used() == {"secrets": "1"}
        await user.delete("secrets", "s")
        await asyncio.sleep(0.2)
        assert user.used() == {"secrets": "0"}


async def test_a_start_without_discovery_counts_what_every_cluster_has(
    user: User,
) -> None:
    user.add_quota({"pods": "5", "secrets": "5"})
    transport = Failing(user.cluster.transport, broken="/apis")
    async with counting(user.cluster, transport):
        await asyncio.sleep(31)
        assert user.used() == {"pods": "0"}
        transport.broken = ""
        await asyncio.sleep(120)
        assert user.used() == {"pods": "0", "secrets": "0"}


async def test_nothing_is_watched_twice_beside_the_garbage_collector(
    user: User,
) -> None:
    transport = Watching(user.cluster.transport)
    settings = make_config(controllers=("resourcequota", "garbagecollector"))
    await _define(user)
    async with user.cluster.manager(settings, transport):
        await asyncio.sleep(5)
        assert "/apis/example.com/v1/widgets" in transport.watched
        assert len(transport.watched) == len(set(transport.watched))
        kinds = user.cluster.server.catalogue
        found = kinds.find("example.com", "v1", "widgets")
        assert found is not None
        kinds.remove(found)  # the garbage collector waits a minute longer
        await asyncio.sleep(200)


async def test_the_version_that_the_garbage_collector_watches_is_counted(
    user: User,
) -> None:
    user.add_quota({"count/widgets.example.com": "3"})
    settings = make_config(controllers=("resourcequota", "garbagecollector"))
    await _define(user)
    cluster = user.cluster
    connections = Connections(cluster.transport)
    async with run_manager(
        connections, cluster.clock, cluster.rng, settings
    ) as manager:
        await asyncio.sleep(5)
        await _create_widget(user, "a")
        await serve_versions(user.cluster.client, "v1", "v2")
        await asyncio.sleep(200)
        watched = [
            each.resource.api_version
            for each in manager.informers.all()
            if each.resource.kind == "Widget"
        ]
        assert watched == ["example.com/v2"]
        await _create_widget(user, "b")
        await asyncio.sleep(5)
        assert user.used() == {"count/widgets.example.com": "2"}


def _claim(name: str, count: int, **metadata: Any) -> JSON:
    exactly = {"deviceClassName": "gpu", "count": count, "allocationMode": "ExactCount"}
    return {
        "kind": "ResourceClaim",
        "name": name,
        "api": "resource.k8s.io/v1",
        "metadata": {"name": name, **metadata},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
    }


@pytest.mark.parametrize("broken", ["/deviceclasses", "/resourceclaims", "/apis"])
async def test_devices_keep_their_usage_until_claims_and_classes_are_known(
    user: User, broken: str
) -> None:
    """Pods may be charged for the same resource, and are not all."""
    spec = {"extendedResourceName": "example.com/gpu"}
    user.cluster.add("DeviceClass", "gpu", "resource.k8s.io/v1", spec=spec)
    user.cluster.add(**_claim("a", 2))
    user.add_quota({"requests.example.com/gpu": "9", "pods": "9"})
    used = {"requests.example.com/gpu": "3", "pods": "1"}
    status = {"hard": {"requests.example.com/gpu": "9", "pods": "9"}, "used": used}
    await user.patch("resourcequotas", "q", {"status": status}, "status")
    transport = Failing(user.cluster.transport, broken=broken)
    async with counting(user.cluster, transport):
        await asyncio.sleep(100)
        assert user.used() == {"requests.example.com/gpu": "3", "pods": "0"}
        transport.broken = ""
        await asyncio.sleep(200)
        assert user.used() == {"requests.example.com/gpu": "2", "pods": "0"}


async def test_without_its_gate_no_class_stands_for_an_extended_resource() -> None:
    features = FeatureGates({"DRAExtendedResource": False})
    user = User(Cluster(features=features))
    spec = {"extendedResourceName": "example.com/gpu"}
    user.cluster.add("DeviceClass", "gpu", "resource.k8s.io/v1", spec=spec)
    user.add_quota({"requests.example.com/gpu": "9"})
    settings = replace(config(), features=features)
    async with counting(user.cluster, settings=settings):
        await asyncio.sleep(2)
        user.cluster.add(**_claim("a", 2))
        assert user.used() == {"requests.example.com/gpu": "0"}
        await asyncio.sleep(2)
        assert user.used() == {"requests.example.com/gpu": "0"}


async def test_a_claim_for_the_extended_resources_of_a_pod_is_charged_once(
    user: User,
) -> None:
    spec = {"extendedResourceName": "example.com/gpu"}
    user.cluster.add("DeviceClass", "gpu", "resource.k8s.io/v1", spec=spec)
    user.add_quota({"requests.example.com/gpu": "50"})
    resources = {
        "requests": {"example.com/gpu": "2"},
        "limits": {"example.com/gpu": "2"},
    }
    container = {"name": "c", "image": "app:v1", "resources": resources}
    user.cluster.add("Pod", "p", spec={"containers": [container]})
    uid = user.stored("p", "Pod")["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid}
    metadata = {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [{**owner, "controller": True}],
    }
    for name, expected in (("a", "2"), ("b", "4")):
        user.cluster.add(**_claim(name, 2, **metadata))
        async with counting(user.cluster):
            await asyncio.sleep(2)
        assert user.used() == {"requests.example.com/gpu": expected}
    user.cluster.add(**_claim("c", 2, **metadata))
    assert user.used() == {"requests.example.com/gpu": "6"}


async def test_the_api_server_charges_a_pods_extended_resources_once(
    user: User,
) -> None:
    spec = {"extendedResourceName": "example.com/gpu"}
    user.cluster.add("DeviceClass", "gpu", "resource.k8s.io/v1", spec=spec)
    user.add_quota({"requests.example.com/gpu": "50"})
    amounts = {"example.com/gpu": "2"}
    resources = {"requests": amounts, "limits": amounts}
    container = {"name": "c", "image": "app:v1", "resources": resources}
    async with counting(user.cluster) as recording:
        await asyncio.sleep(2)
        user.cluster.add("Pod", "p", spec={"containers": [container]})
        uid = user.stored("p", "Pod")["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid}
        metadata = {
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [{**owner, "controller": True}],
        }
        user.cluster.add(**_claim("a", 3, **metadata))
        assert user.used() == {"requests.example.com/gpu": "3"}
        await asyncio.sleep(2)
        user.cluster.add(**_claim("b", 2, **metadata))
        assert user.used() == {"requests.example.com/gpu": "5"}
        await asyncio.sleep(40)
        assert user.used() == {"requests.example.com/gpu": "5"}
    assert len(recording.writes) == 1
