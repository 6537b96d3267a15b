"""Slices follow pods on a cluster in memory, on virtual time."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import msgspec
import pytest
import pytest_asyncio
from msgspec.structs import replace as replace_struct

from controller_manager.api.core.services import SERVICES, Service
from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.api.discovery.v1 import ENDPOINT_SLICES, EndpointSlice
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.network.endpointslice import EndpointSliceOptions
from controller_manager.controllers.network.endpointslice.controller import (
    EndpointSliceReconciler,
)
from controller_manager.devcluster.inmemory import StreamingResponse
from controller_manager.options.config import Config
from controller_manager.runtime.outcome import Outcome
from tests.clusters import make_config
from tests.controllers.network.backends import PORTS, Services, pod_status

pytestmark = pytest.mark.looptime


def slice_config(**generic: object) -> Config:
    return make_config(controllers=("endpointslice",), **generic)


NOW = "2026-01-01T00:00:00Z"


def failed(message: str) -> str:
    return (
        "web Warning FailedToUpdateEndpointSlices [endpoint-slice-controller]: "
        f"Error updating Endpoint Slices for Service default/web: {message}"
    )


@pytest_asyncio.fixture
async def cluster() -> Services:
    cluster = Services()
    cluster.add_node()
    return cluster


async def test_a_slice_shows_the_pods_of_a_service() -> None:
    cluster = Services(rbac=True)
    cluster.add_node()
    cluster.add_service()
    cluster.add_pod("a", "10.1.0.1")
    config = slice_config(use_service_account_credentials=True)
    async with cluster.confined_manager(config) as recording:
        await asyncio.sleep(1)
        (found,) = cluster.slices()
    service = cluster.stored(SERVICES, "web")["metadata"]
    pod = cluster.stored(PODS, "a")["metadata"]
    metadata = found.metadata
    assert msgspec.json.decode(msgspec.json.encode(found)) == {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": metadata.name,
            "generateName": "web-",
            "namespace": "default",
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "endpointslice.kubernetes.io/managed-by": (
                    "endpointslice-controller.k8s.io"
                ),
                "kubernetes.io/service-name": "web",
            },
            "annotations": {
                "endpoints.kubernetes.io/last-change-trigger-time": (
                    service["creationTimestamp"]
                )
            },
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "name": "web",
                    "uid": service["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "addressType": "IPv4",
        "endpoints": [
            {
                "addresses": ["10.1.0.1"],
                "conditions": {"ready": True, "serving": True, "terminating": False},
                "targetRef": {
                    "kind": "Pod",
                    "namespace": "default",
                    "name": "a",
                    "uid": pod["uid"],
                },
                "nodeName": "n",
                "zone": "a",
            }
        ],
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
    }
    assert [each.status for each in recording.writes] == [201]


async def test_a_pod_whose_node_is_not_known_is_left_out_until_it_is(
    cluster: Services,
) -> None:
    cluster.add_service()
    cluster.add_pod("a", "10.1.0.1")
    cluster.add_pod("b", "10.1.0.2", node="late")
    async with cluster.manager(slice_config()):
        await asyncio.sleep(1)
        assert cluster.addresses() == [["10.1.0.1"]]
        await asyncio.sleep(500)
        cluster.add_node("late")
        await asyncio.sleep(0.1)
        assert cluster.addresses() == [["10.1.0.1", "10.1.0.2"]]
        told = cluster.told(counted=True)
        await asyncio.sleep(500)
    message = "skipping Pod b for Service default/web: Node late Not Found"
    # After 0, 1, 3, 7, 15, 31, 63, 127, 247, 367 and 487 seconds.
    assert told == cluster.told(counted=True) == [f"{failed(message)} x11"]


async def test_addresses_that_are_not_ready_are_published_even_without_a_node(
    cluster: Services,
) -> None:
    """The user wants to see each pod: so the peers of a database find each other."""
    cluster.add_service(publishNotReadyAddresses=True)
    cluster.add_pod("a", "10.1.0.1", node="unknown")
    async with cluster.manager(slice_config()):
        await asyncio.sleep(1)
        assert cluster.addresses() == [["10.1.0.1"]]
    assert cluster.told() == []


async def test_a_pod_whose_node_is_gone_leaves_at_the_next_sync(
    cluster: Services,
) -> None:
    """As upstream: the node alone changes nothing."""
    cluster.add_service()
    cluster.add_node("n2")
    cluster.add_pod("a", "10.1.0.1")
    cluster.add_pod("b", "10.1.0.2", node="n2")
    async with cluster.manager(slice_config()):
        await asyncio.sleep(1)
        cluster.remove(NODES, "n2")
        await asyncio.sleep(100)
        assert cluster.addresses() == [["10.1.0.1", "10.1.0.2"]]
        cluster.set_status("a", "10.1.0.1", ready=False)
        await asyncio.sleep(1)
        assert cluster.addresses() == [["10.1.0.1"]]


async def test_a_pod_that_loses_the_label_of_a_service_or_ends_leaves_its_slice(
    cluster: Services,
) -> None:
    cluster.add_service()
    cluster.add_pod("a", "10.1.0.1")
    cluster.add_pod("b", "10.1.0.2")
    async with cluster.manager(slice_config()):
        await asyncio.sleep(2)
        assert cluster.addresses() == [["10.1.0.1", "10.1.0.2"]]
        cluster.edit(PODS, "a", metadata={"labels": {"app": None}})
        await asyncio.sleep(2)
        assert cluster.addresses() == [["10.1.0.2"]]
        cluster.edit(PODS, "b", status={"phase": "Failed"})
        await asyncio.sleep(2)
        assert cluster.addresses() == [[]]


async def test_changes_of_pods_are_collected_for_the_batch_period(
    cluster: Services,
) -> None:
    cluster.add_service()
    options = EndpointSliceOptions(updates_batch_period=5.0)
    config = replace(slice_config(), controllers={EndpointSliceOptions: options})
    async with cluster.manager(config) as recording:
        await asyncio.sleep(10)
        for number in range(1, 11):
            cluster.add_pod(f"p{number}", f"10.1.0.{number}")
            await asyncio.sleep(0.4)
        await asyncio.sleep(4)
    assert [each.method for each in recording.writes] == ["POST", "PUT"]


async def test_heartbeats_and_other_conditions_cause_no_sync(cluster: Services) -> None:
    cluster.add_service()
    cluster.add_pod("a", "10.1.0.1")
    with _counting_syncs() as syncs:
        async with cluster.manager(slice_config()) as recording:
            await asyncio.sleep(10)
            syncs.clear()
            other = {"type": "Other", "status": "True"}
            conditions = [*pod_status("10.1.0.1")["conditions"], other]
            cluster.edit(PODS, "a", status={"conditions": conditions})
            ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": NOW}
            cluster.edit(NODES, "n", status={"conditions": [ready]})
            await asyncio.sleep(10)
    assert (syncs, len(recording.writes)) == ({}, 1)


async def test_the_controllers_own_writes_cause_no_sync(cluster: Services) -> None:
    cluster.add_service()
    with _counting_syncs() as syncs:
        async with cluster.manager(slice_config()):
            await asyncio.sleep(10)
            syncs.clear()
            cluster.add_pod("a", "10.1.0.1")
            await asyncio.sleep(10)
    assert syncs == {"web": 1}


@pytest.mark.parametrize(
    "edit",
    [
        {"endpoints": []},
        {"endpoints": [{"addresses": ["10.9.9.9"]}]},
        {"ports": [{"name": "other", "port": 1}]},
        {"metadata": {"labels": {"more": "labels"}}},
        {"metadata": {"labels": {"team": None}}},
        {"metadata": {"labels": {"service.kubernetes.io/headless": ""}}},
    ],
)
async def test_an_edit_of_a_slice_is_corrected(cluster: Services, edit: JSON) -> None:
    cluster.add_service(metadata={"labels": {"team": "x"}})
    cluster.add_pod("a", "10.1.0.1")
    async with cluster.manager(slice_config()):
        await asyncio.sleep(10)
        (before,) = cluster.slices()
        cluster.edit(ENDPOINT_SLICES, before.metadata.name, **edit)
        await asyncio.sleep(3)
        (after,) = cluster.slices()
    assert _content(after) == _content(before)


@pytest.mark.parametrize(
    "label", ["endpointslice.kubernetes.io/managed-by", "kubernetes.io/service-name"]
)
async def test_a_slice_that_a_user_relabels_is_replaced(
    cluster: Services, label: str
) -> None:
    """Upstream creates no replacement before a restart. The relabelled slice stays."""
    cluster.add_service()
    cluster.add_pod("a", "10.1.0.1")
    async with cluster.manager(slice_config()):
        await asyncio.sleep(10)
        (taken,) = cluster.slices()
        cluster.edit(
            ENDPOINT_SLICES, taken.metadata.name, metadata={"labels": {label: "mine"}}
        )
        await asyncio.sleep(3)
        slices = {each.metadata.name: each for each in cluster.slices()}
    assert (slices.pop(taken.metadata.name).metadata.labels or {})[label] == "mine"
    (replacement,) = slices.values()
    assert _content(replacement) == _content(taken)


async def test_a_slice_that_a_user_deletes_comes_back(cluster: Services) -> None:
    cluster.add_service()
    cluster.add_pod("a", "10.1.0.1")
    for _ in range(2):
        async with cluster.manager(slice_config()):
            await asyncio.sleep(10)
            (found,) = cluster.slices()
            cluster.remove(ENDPOINT_SLICES, found.metadata.name)
            await asyncio.sleep(3)
            assert cluster.addresses() == [["10.1.0.1"]]


async def test_a_slice_that_waits_for_a_finalizer_is_replaced(
    cluster: Services,
) -> None:
    cluster.add_service()
    cluster.add_pod("a", "10.1.0.1")
    async with cluster.manager(slice_config()):
        await asyncio.sleep(10)
        (found,) = cluster.slices()
        cluster.edit(
            ENDPOINT_SLICES,
            found.metadata.name,
            metadata={"finalizers": ["example.com/held"]},
        )
        cluster.remove(ENDPOINT_SLICES, found.metadata.name)
        await asyncio.sleep(3)
        assert cluster.addresses() == [["10.1.0.1"], ["10.1.0.1"]]


async def test_a_service_that_is_being_deleted_gets_no_new_slices(
    cluster: Services,
) -> None:
    cluster.add_service(metadata={"finalizers": ["example.com/held"]})
    cluster.add_pod("a", "10.1.0.1")
    options = EndpointSliceOptions(max_endpoints_per_slice=1)
    config = replace(slice_config(), controllers={EndpointSliceOptions: options})
    async with cluster.manager(config):
        await asyncio.sleep(10)
        cluster.remove(SERVICES, "web")
        cluster.add_pod("b", "10.1.0.2")
        await asyncio.sleep(10)
        assert cluster.addresses() == [["10.1.0.1"]]
        cluster.set_status("a", "10.1.0.1", ready=False)
        await asyncio.sleep(10)
        (found,) = cluster.slices()
    assert [each.conditions.ready for each in found.endpoints or ()] == [False]


async def test_a_new_service_of_the_same_name_gets_slices_of_its_own(
    cluster: Services,
) -> None:
    cluster.add_service()
    cluster.add_pod("a", "10.1.0.1")
    async with cluster.manager(slice_config()):
        await asyncio.sleep(10)
        (former,) = cluster.slices()
        cluster.remove(SERVICES, "web")
        cluster.add_service()
        await asyncio.sleep(10)
        (found,) = cluster.slices()
    assert found.metadata.uid != former.metadata.uid
    assert cluster.addresses() == [["10.1.0.1"]]


def _refusing(cluster: Services, method: str, answer: Response, times: int) -> None:
    handle = cluster.server.handle
    left = [times]

    async def refused(request: Request) -> Response | StreamingResponse:
        if request.method == method and "endpointslices" in request.path and left[0]:
            left[0] -= 1
            return answer
        return await handle(request)

    cluster.server.handle = refused  # type: ignore[method-assign]


def _status(code: int, reason: str, **details: Any) -> Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": "no"}
    return Response(code, {}, msgspec.json.encode({**body, "details": details}))


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("POST", "failed to create EndpointSlice for Service default/web: no"),
        ("PUT", "failed to update {0} EndpointSlice for Service default/web: no"),
        ("DELETE", "failed to delete {0} EndpointSlice for Service default/web: no"),
    ],
)
async def test_a_write_that_fails_is_reported_and_tried_again(
    cluster: Services, method: str, message: str
) -> None:
    options = EndpointSliceOptions(max_endpoints_per_slice=1)
    config = replace(slice_config(), controllers={EndpointSliceOptions: options})
    cluster.add_service()
    async with cluster.manager(config):
        await asyncio.sleep(10)
        cluster.add_pod("a", "10.1.0.1")
        await asyncio.sleep(10)
        (found,) = cluster.slices()
        cluster.add_pod("b", "10.1.0.2")
        await asyncio.sleep(10)
        _refusing(cluster, method, _status(500, "InternalError"), 2)
        if method == "POST":
            cluster.add_pod("c", "10.1.0.3")
        elif method == "PUT":
            cluster.set_status("a", "10.1.0.1", ready=False)
        else:
            cluster.remove(PODS, "a")
        await asyncio.sleep(2)
        before = cluster.slices()
        await asyncio.sleep(2)
        assert before != cluster.slices()
    assert cluster.told() == [failed(message.format(found.metadata.name))]


async def test_a_deletion_that_a_conflict_refuses_is_tried_again(
    cluster: Services,
) -> None:
    """A webhook may return a conflict; without a retry, the slice would stay."""
    cluster.add_service()
    cluster.add_pod("a", "10.1.0.1")
    options = EndpointSliceOptions(max_endpoints_per_slice=1)
    config = replace(slice_config(), controllers={EndpointSliceOptions: options})
    async with cluster.manager(config):
        cluster.add_pod("b", "10.1.0.2")
        await asyncio.sleep(10)
        _refusing(cluster, "DELETE", _status(409, "Conflict"), 1)
        cluster.remove(PODS, "a")
        await asyncio.sleep(5)
        assert cluster.addresses() == [["10.1.0.2"]]


async def test_nothing_is_tried_again_in_a_namespace_that_is_being_deleted(
    cluster: Services,
) -> None:
    """No slice can be created there any more, so the refusal is not a failure."""
    cause = {"reason": "NamespaceTerminating", "field": "metadata.namespace"}
    answer = _status(403, "Forbidden", causes=[cause])
    _refusing(cluster, "POST", answer, 100)
    cluster.add_service()
    async with cluster.manager(slice_config()) as recording:
        await asyncio.sleep(100)
    assert [each.status for each in recording.writes] == [403]
    assert cluster.told() == []


async def test_slices_of_upstream_are_taken_over_without_a_write(
    cluster: Services,
) -> None:
    ports = [*PORTS, {"name": "metrics", "port": 90, "targetPort": 9100}]
    cluster.add_service(ports=ports)
    cluster.add_pod("a", "10.1.0.1")
    cluster.add_pod("b", "10.1.0.2")
    async with cluster.manager(slice_config()):
        await asyncio.sleep(10)
    (found,) = cluster.slices()
    swapped = replace_struct(
        found,
        endpoints=tuple(reversed(found.endpoints or ())),
        ports=tuple(reversed(found.ports or ())),
    )
    await cluster.client.update(ENDPOINT_SLICES, swapped)
    async with cluster.manager(slice_config()) as recording:
        await asyncio.sleep(10)
    assert recording.writes == []


async def test_hints_are_set_again_when_nodes_are_added(cluster: Services) -> None:
    """A third zone needs a share; it has no endpoints, so other zones give it some."""
    cluster.add_node("n2", zone="b")
    mode = {"service.kubernetes.io/topology-mode": "Auto"}
    cluster.add_service(metadata={"annotations": mode})
    for number in range(1, 7):
        cluster.add_pod(f"p{number}", f"10.1.0.{number}", node=("n", "n2")[number % 2])
    async with cluster.manager(slice_config()):
        await asyncio.sleep(10)
        assert _hints(cluster) == {"a": 3, "b": 3}
        cluster.add_node("n3", zone="c")
        await asyncio.sleep(10)
        assert _hints(cluster) == {"a": 2, "b": 2, "c": 2}


def _set_zone(cluster: Services, node: str, zone: str | None) -> None:
    labels = {"topology.kubernetes.io/zone": zone}
    cluster.edit(NODES, node, metadata={"labels": labels})


def _add_hinted_service(cluster: Services, **spec: Any) -> None:
    """Add a service with hints by topology, or by `spec`, and six pods on two nodes."""
    mode = {} if spec else {"service.kubernetes.io/topology-mode": "Auto"}
    cluster.add_service(metadata={"annotations": mode}, **spec)
    for number in range(1, 7):
        cluster.add_pod(f"p{number}", f"10.1.0.{number}", node=f"n{number % 2 + 2}")


@pytest.mark.parametrize(
    "spec", [{}, {"trafficDistribution": "PreferSameZone"}], ids=["topology", "zone"]
)
async def test_hints_follow_zones_that_nodes_get_late(
    cluster: Services, spec: JSON
) -> None:
    cluster.remove(NODES, "n")
    for node in ("n2", "n3"):
        cluster.add_node(node, zone="")
    _add_hinted_service(cluster, **spec)
    async with cluster.manager(slice_config()):
        await asyncio.sleep(60)
        assert _hints(cluster) == {}
        _set_zone(cluster, "n2", "a")
        await asyncio.sleep(2)
        assert _hints(cluster) == ({"a": 3} if spec else {})
        _set_zone(cluster, "n3", "b")
        await asyncio.sleep(2)
        assert _hints(cluster) == {"a": 3, "b": 3}
        zones = {
            each.node_name: each.zone
            for found in cluster.slices()
            for each in found.endpoints or ()
        }
        assert zones == {"n2": "a", "n3": "b"}
        _set_zone(cluster, "n3", None)
        await asyncio.sleep(2)
        assert _hints(cluster) == ({"a": 3} if spec else {})
        _set_zone(cluster, "n3", "c")
        await asyncio.sleep(2)
        assert _hints(cluster) == {"a": 3, "c": 3}


def _hints(cluster: Services) -> Counter[str]:
    return Counter(
        zone.name
        for each in cluster.slices()
        for one in each.endpoints or ()
        if one.hints is not None
        for zone in one.hints.for_zones or ()
    )


def _content(each: EndpointSlice) -> tuple[object, ...]:
    return (each.endpoints, each.ports, each.address_type)


@contextmanager
def _counting_syncs() -> Iterator[Counter[str]]:
    syncs: Counter[str] = Counter()
    reconcile = EndpointSliceReconciler.reconcile

    async def counted(self: EndpointSliceReconciler, service: Service) -> Outcome:
        syncs[service.metadata.name] += 1
        return await reconcile(self, service)

    with mock.patch.object(EndpointSliceReconciler, "reconcile", counted):
        yield syncs
