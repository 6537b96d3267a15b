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
from controller_manager.client.rest.client import DeleteOptions, PatchType
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.network.endpointslice import EndpointSliceOptions
from controller_manager.controllers.network.endpointslice.controller import (
    EndpointSliceReconciler,
)
from controller_manager.devcluster.inmemory import StreamingResponse
from controller_manager.runtime.outcome import Outcome
from tests.clusters import Cluster
from tests.controllers.network.endpointslice.user import (
    PORTS,
    ServiceUser,
    pod_status,
    slice_config,
)

pytestmark = pytest.mark.looptime


NOW = "2026-01-01T00:00:00Z"


@pytest_asyncio.fixture
async def user(cluster: Cluster) -> ServiceUser:
    made = ServiceUser(cluster)
    made.add_node()
    return made


async def test_a_slice_shows_the_pods_of_a_service() -> None:
    cluster = Cluster(rbac=True)
    user = ServiceUser(cluster)
    user.add_node()
    user.add_service()
    user.add_pod("a", "10.1.0.1")
    config = slice_config(use_service_account_credentials=True)
    async with cluster.confined_manager(config) as recording:
        await asyncio.sleep(1)
        (found,) = await user.slices()
    service = await cluster.client.get(SERVICES, "default", "web")
    pod = await cluster.client.get(PODS, "default", "a")
    metadata = found.metadata
    assert msgspec.json.decode(msgspec.json.encode(found)) == {
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
                    service.metadata.creation_timestamp
                )
            },
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "name": "web",
                    "uid": service.metadata.uid,
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
                    "uid": pod.metadata.uid,
                },
                "nodeName": "n1",
                "zone": "a",
            }
        ],
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
    }
    assert [each.status for each in recording.writes] == [201]


async def test_a_pod_whose_node_is_not_known_is_left_out_until_it_is(
    user: ServiceUser,
) -> None:
    user.add_service()
    user.add_pod("a", "10.1.0.1")
    user.add_pod("b", "10.1.0.2", node="late")
    async with user.cluster.manager(slice_config()):
        await asyncio.sleep(1)
        assert await user.addresses() == [["10.1.0.1"]]
        await asyncio.sleep(500)
        user.add_node("late")
        await asyncio.sleep(0.1)
        assert await user.addresses() == [["10.1.0.1", "10.1.0.2"]]
        counts = await user.event_counts()
        await asyncio.sleep(500)
    # After 0, 1, 3, 7, 15, 31, 63, 127, 247, 367 and 487 seconds.
    assert counts == await user.event_counts() == [11]
    message = (
        "Error updating Endpoint Slices for Service default/web: skipping Pod b for "
        "Service default/web: Node late Not Found"
    )
    assert await user.events() == [
        ("FailedToUpdateEndpointSlices", message, "endpoint-slice-controller")
    ]


async def test_addresses_that_are_not_ready_are_published_even_without_a_node(
    user: ServiceUser,
) -> None:
    """The user wants to see each pod: so the peers of a database find each other."""
    user.add_service(publishNotReadyAddresses=True)
    user.add_pod("a", "10.1.0.1", node="unknown")
    async with user.cluster.manager(slice_config()):
        await asyncio.sleep(1)
        assert await user.addresses() == [["10.1.0.1"]]
    assert await user.events() == []


async def test_a_pod_whose_node_is_gone_leaves_at_the_next_sync(
    user: ServiceUser,
) -> None:
    """As upstream: the node alone changes nothing."""
    user.add_service()
    user.add_node("n2")
    user.add_pod("a", "10.1.0.1")
    user.add_pod("b", "10.1.0.2", node="n2")
    async with user.cluster.manager(slice_config()):
        await asyncio.sleep(1)
        await user.delete(NODES, "n2")
        await asyncio.sleep(100)
        assert await user.addresses() == [["10.1.0.1", "10.1.0.2"]]
        await user.set_status("a", "10.1.0.1", ready=False)
        await asyncio.sleep(1)
        assert await user.addresses() == [["10.1.0.1"]]


async def test_a_pod_that_loses_the_label_of_a_service_or_ends_leaves_its_slice(
    user: ServiceUser,
) -> None:
    user.add_service()
    user.add_pod("a", "10.1.0.1")
    user.add_pod("b", "10.1.0.2")
    async with user.cluster.manager(slice_config()):
        await asyncio.sleep(2)
        assert await user.addresses() == [["10.1.0.1", "10.1.0.2"]]
        await user.patch(PODS, "a", {"metadata": {"labels": {"app": None}}})
        await asyncio.sleep(2)
        assert await user.addresses() == [["10.1.0.2"]]
        await user.patch_status(PODS, "b", {"status": {"phase": "Failed"}})
        await asyncio.sleep(2)
        assert await user.addresses() == [[]]


async def test_changes_of_pods_are_collected_for_the_batch_period(
    user: ServiceUser,
) -> None:
    user.add_service()
    options = EndpointSliceOptions(updates_batch_period=5.0)
    config = replace(slice_config(), controllers={EndpointSliceOptions: options})
    async with user.cluster.manager(config) as recording:
        await asyncio.sleep(10)
        for number in range(1, 11):
            user.add_pod(f"p{number}", f"10.1.0.{number}")
            await asyncio.sleep(0.4)
        await asyncio.sleep(4)
    assert [each.method for each in recording.writes] == ["POST", "PUT"]


async def test_heartbeats_and_other_conditions_cause_no_sync(user: ServiceUser) -> None:
    user.add_service()
    user.add_pod("a", "10.1.0.1")
    with _counting_syncs() as syncs:
        async with user.cluster.manager(slice_config()) as recording:
            await asyncio.sleep(10)
            syncs.clear()
            other = {"type": "Other", "status": "True"}
            conditions = [*pod_status("10.1.0.1")["conditions"], other]
            patch = {"status": {"conditions": conditions}}
            await user.patch_status(PODS, "a", patch)
            ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": NOW}
            await user.patch_status(NODES, "n1", {"status": {"conditions": [ready]}})
            await asyncio.sleep(10)
    assert (syncs, len(recording.writes)) == ({}, 1)


async def test_the_controllers_own_writes_cause_no_sync(user: ServiceUser) -> None:
    user.add_service()
    with _counting_syncs() as syncs:
        async with user.cluster.manager(slice_config()):
            await asyncio.sleep(10)
            syncs.clear()
            user.add_pod("a", "10.1.0.1")
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
async def test_an_edit_of_a_slice_is_corrected(user: ServiceUser, edit: JSON) -> None:
    user.cluster.add(
        "Service",
        "web",
        metadata={"name": "web", "labels": {"team": "x"}},
        spec={"selector": {"app": "web"}, "ports": PORTS},
    )
    user.add_pod("a", "10.1.0.1")
    async with user.cluster.manager(slice_config()):
        await asyncio.sleep(10)
        (before,) = await user.slices()
        await user.patch(ENDPOINT_SLICES, before.metadata.name, edit)
        await asyncio.sleep(3)
        (after,) = await user.slices()
    assert _content(after) == _content(before)


@pytest.mark.parametrize(
    "label", ["endpointslice.kubernetes.io/managed-by", "kubernetes.io/service-name"]
)
async def test_a_slice_that_a_user_relabels_is_replaced(
    user: ServiceUser, label: str
) -> None:
    """Upstream creates no replacement before a restart. The relabelled slice stays."""
    user.add_service()
    user.add_pod("a", "10.1.0.1")
    async with user.cluster.manager(slice_config()):
        await asyncio.sleep(10)
        (taken,) = await user.slices()
        patch = {"metadata": {"labels": {label: "mine"}}}
        await user.patch(ENDPOINT_SLICES, taken.metadata.name, patch)
        await asyncio.sleep(3)
        slices = {each.metadata.name: each for each in await user.slices()}
    assert (slices.pop(taken.metadata.name).metadata.labels or {})[label] == "mine"
    (replacement,) = slices.values()
    assert _content(replacement) == _content(taken)


async def test_a_slice_that_a_user_deletes_comes_back(user: ServiceUser) -> None:
    user.add_service()
    user.add_pod("a", "10.1.0.1")
    for _ in range(2):
        async with user.cluster.manager(slice_config()):
            await asyncio.sleep(10)
            (found,) = await user.slices()
            await user.delete(ENDPOINT_SLICES, found.metadata.name)
            await asyncio.sleep(3)
            assert await user.addresses() == [["10.1.0.1"]]


async def test_a_slice_that_waits_for_a_finalizer_is_replaced(
    user: ServiceUser,
) -> None:
    user.add_service()
    user.add_pod("a", "10.1.0.1")
    async with user.cluster.manager(slice_config()):
        await asyncio.sleep(10)
        (found,) = await user.slices()
        held = {"metadata": {"finalizers": ["example.com/held"]}}
        await user.patch(ENDPOINT_SLICES, found.metadata.name, held)
        await user.delete(ENDPOINT_SLICES, found.metadata.name)
        await asyncio.sleep(3)
        assert await user.addresses() == [["10.1.0.1"], ["10.1.0.1"]]


async def test_a_service_that_is_being_deleted_gets_no_new_slices(
    user: ServiceUser,
) -> None:
    user.cluster.add(
        "Service",
        "web",
        metadata={"name": "web", "finalizers": ["example.com/held"]},
        spec={"selector": {"app": "web"}, "ports": PORTS},
    )
    user.add_pod("a", "10.1.0.1")
    options = EndpointSliceOptions(max_endpoints_per_slice=1)
    config = replace(slice_config(), controllers={EndpointSliceOptions: options})
    async with user.cluster.manager(config):
        await asyncio.sleep(10)
        await user.delete(SERVICES, "web")
        user.add_pod("b", "10.1.0.2")
        await asyncio.sleep(10)
        assert await user.addresses() == [["10.1.0.1"]]
        await user.set_status("a", "10.1.0.1", ready=False)
        await asyncio.sleep(10)
        (found,) = await user.slices()
    assert [each.conditions.ready for each in found.endpoints or ()] == [False]


async def test_a_new_service_of_the_same_name_gets_slices_of_its_own(
    user: ServiceUser,
) -> None:
    user.add_service()
    user.add_pod("a", "10.1.0.1")
    async with user.cluster.manager(slice_config()):
        await asyncio.sleep(10)
        (former,) = await user.slices()
        await user.delete(SERVICES, "web")
        user.add_service()
        await asyncio.sleep(10)
        (found,) = await user.slices()
    assert found.metadata.uid != former.metadata.uid
    assert await user.addresses() == [["10.1.0.1"]]


def _refusing(cluster: Cluster, method: str, answer: Response, times: int) -> None:
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
    user: ServiceUser, method: str, message: str
) -> None:
    options = EndpointSliceOptions(max_endpoints_per_slice=1)
    config = replace(slice_config(), controllers={EndpointSliceOptions: options})
    user.add_service()
    async with user.cluster.manager(config):
        await asyncio.sleep(10)
        user.add_pod("a", "10.1.0.1")
        await asyncio.sleep(10)
        (found,) = await user.slices()
        user.add_pod("b", "10.1.0.2")
        await asyncio.sleep(10)
        _refusing(user.cluster, method, _status(500, "InternalError"), 2)
        if method == "POST":
            user.add_pod("c", "10.1.0.3")
        elif method == "PUT":
            await user.set_status("a", "10.1.0.1", ready=False)
        else:
            now = DeleteOptions(grace_period_seconds=0)
            await user.client.delete(PODS, "default", "a", now)
        await asyncio.sleep(2)
        before = await user.slices()
        await asyncio.sleep(2)
        assert before != await user.slices()
    text = "Error updating Endpoint Slices for Service default/web: "
    assert await user.events() == [
        (
            "FailedToUpdateEndpointSlices",
            text + message.format(found.metadata.name),
            "endpoint-slice-controller",
        )
    ]


async def test_a_deletion_that_a_conflict_refuses_is_tried_again(
    user: ServiceUser,
) -> None:
    """A webhook may return a conflict; without a retry, the slice would stay."""
    user.add_service()
    user.add_pod("a", "10.1.0.1")
    options = EndpointSliceOptions(max_endpoints_per_slice=1)
    config = replace(slice_config(), controllers={EndpointSliceOptions: options})
    async with user.cluster.manager(config):
        user.add_pod("b", "10.1.0.2")
        await asyncio.sleep(10)
        _refusing(user.cluster, "DELETE", _status(409, "Conflict"), 1)
        now = DeleteOptions(grace_period_seconds=0)
        await user.client.delete(PODS, "default", "a", now)
        await asyncio.sleep(5)
        assert await user.addresses() == [["10.1.0.2"]]


async def test_nothing_is_tried_again_in_a_namespace_that_is_being_deleted(
    user: ServiceUser,
) -> None:
    """No slice can be created there any more, so the refusal is not a failure."""
    cause = {"reason": "NamespaceTerminating", "field": "metadata.namespace"}
    answer = _status(403, "Forbidden", causes=[cause])
    _refusing(user.cluster, "POST", answer, 100)
    user.add_service()
    async with user.cluster.manager(slice_config()) as recording:
        await asyncio.sleep(100)
    assert [each.status for each in recording.writes] == [403]
    assert await user.events() == []


async def test_slices_of_upstream_are_taken_over_without_a_write(
    user: ServiceUser,
) -> None:
    ports = [*PORTS, {"name": "metrics", "port": 90, "targetPort": 9100}]
    user.add_service(ports=ports)
    user.add_pod("a", "10.1.0.1")
    user.add_pod("b", "10.1.0.2")
    async with user.cluster.manager(slice_config()):
        await asyncio.sleep(10)
    (found,) = await user.slices()
    swapped = replace_struct(
        found,
        endpoints=tuple(reversed(found.endpoints or ())),
        ports=tuple(reversed(found.ports or ())),
    )
    await user.client.update(ENDPOINT_SLICES, swapped)
    async with user.cluster.manager(slice_config()) as recording:
        await asyncio.sleep(10)
    assert recording.writes == []


async def test_hints_are_set_again_when_nodes_are_added(user: ServiceUser) -> None:
    """A third zone needs a share; it has no endpoints, so other zones give it some."""
    user.add_node("n2", zone="b")
    mode = {"service.kubernetes.io/topology-mode": "Auto"}
    user.cluster.add(
        "Service",
        "web",
        metadata={"name": "web", "annotations": mode},
        spec={"selector": {"app": "web"}, "ports": PORTS},
    )
    for number in range(1, 7):
        user.add_pod(f"p{number}", f"10.1.0.{number}", node=f"n{number % 2 + 1}")
    async with user.cluster.manager(slice_config()):
        await asyncio.sleep(10)
        assert await _hints(user) == {"a": 3, "b": 3}
        user.add_node("n3", zone="c")
        await asyncio.sleep(10)
        assert await _hints(user) == {"a": 2, "b": 2, "c": 2}


async def _set_zone(user: ServiceUser, node: str, zone: str | None) -> None:
    labels = {"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}}
    await user.client.patch(NODES, "", node, labels, PatchType.MERGE)


def _add_hinted_service(user: ServiceUser, **spec: Any) -> None:
    """Add a service with hints by topology, or by `spec`, and six pods on two nodes."""
    mode = {} if spec else {"service.kubernetes.io/topology-mode": "Auto"}
    user.cluster.add(
        "Service",
        "web",
        metadata={"name": "web", "annotations": mode},
        spec={"selector": {"app": "web"}, "ports": PORTS, **spec},
    )
    for number in range(1, 7):
        user.add_pod(f"p{number}", f"10.1.0.{number}", node=f"n{number % 2 + 2}")


@pytest.mark.parametrize(
    "spec", [{}, {"trafficDistribution": "PreferSameZone"}], ids=["topology", "zone"]
)
async def test_hints_follow_zones_that_nodes_get_late(
    user: ServiceUser, spec: JSON
) -> None:
    await user.delete(NODES, "n1")
    for node in ("n2", "n3"):
        user.add_node(node, zone="")
    _add_hinted_service(user, **spec)
    async with user.cluster.manager(slice_config()):
        await asyncio.sleep(60)
        assert await _hints(user) == {}
        await _set_zone(user, "n2", "a")
        await asyncio.sleep(2)
        assert await _hints(user) == ({"a": 3} if spec else {})
        await _set_zone(user, "n3", "b")
        await asyncio.sleep(2)
        assert await _hints(user) == {"a": 3, "b": 3}
        zones = {
            each.node_name: each.zone
            for found in await user.slices()
            for each in found.endpoints or ()
        }
        assert zones == {"n2": "a", "n3": "b"}
        await _set_zone(user, "n3", None)
        await asyncio.sleep(2)
        assert await _hints(user) == ({"a": 3} if spec else {})
        await _set_zone(user, "n3", "c")
        await asyncio.sleep(2)
        assert await _hints(user) == {"a": 3, "c": 3}


async def _hints(user: ServiceUser) -> Counter[str]:
    return Counter(
        zone.name
        for each in await user.slices()
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
