"""Endpoints follow services and pods, in memory and on virtual time."""

import asyncio
from dataclasses import replace
from typing import Final

import pytest

from controller_manager.api.core.services import ENDPOINTS, SERVICES, Service
from controller_manager.api.core.v1 import EVENTS, NAMESPACES, PODS
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.network.endpoints import EndpointsOptions
from controller_manager.controllers.network.endpoints.controller import (
    EDIT_DELAY,
    EndpointsReconciler,
)
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.runtime.outcome import Outcome
from tests.clusters import TOKEN, make_config
from tests.controllers.network.backends import Refusing, Services, pod_status
from tests.controllers.responses import refusal
from tests.controllers.rows import rows
from tests.runtime.silence import SilentWatches

pytestmark = pytest.mark.looptime

CONFIG: Final = make_config(controllers=("endpoint",))
LOCK: Final = {"control-plane.alpha.kubernetes.io/leader": "{}"}


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the services that are synced, one for each sync."""
    found: list[str] = []
    reconcile = EndpointsReconciler.reconcile

    async def counted(self: EndpointsReconciler, service: Service) -> Outcome:
        found.append(service.metadata.name)
        return await reconcile(self, service)

    monkeypatch.setattr(EndpointsReconciler, "reconcile", counted)
    return found


async def test_endpoints_follow_pods_and_go_with_the_service() -> None:
    """The role of upstream suffices."""
    cluster = Services(rbac=True)
    config = make_config(
        controllers=("endpoint",), use_service_account_credentials=True
    )
    async with cluster.confined_manager(config) as recording:
        cluster.add_service()
        seen = [await cluster.ready()]
        cluster.add_pod("a", "10.1.0.1")
        cluster.add_pod("b", "10.1.0.2")
        seen.append(await cluster.ready())
        cluster.edit(PODS, "a", status=pod_status("10.1.0.1", ready=False))
        seen.append(await cluster.ready())
        cluster.remove(PODS, "b")
        seen.append(await cluster.ready())
        cluster.remove(SERVICES, "web")
        seen.append(await cluster.ready())
    assert seen == [[], ["10.1.0.1", "10.1.0.2"], ["10.1.0.2"], [], None]
    assert {each.status // 100 for each in recording.writes} == {2}


async def test_changes_of_pods_are_collected_for_the_batch_period(
    cluster: Services,
) -> None:
    config = replace(
        CONFIG, controllers={EndpointsOptions: EndpointsOptions(batch_period=5.0)}
    )
    async with cluster.manager(config) as recording:
        cluster.add_service()
        seen = [await cluster.ready()]
        for number in range(1, 4):
            cluster.add_pod(f"p{number}", f"10.1.0.{number}")
            seen.append(await cluster.ready())
        await asyncio.sleep(3)
        seen.append(await cluster.ready())
    assert seen == [[], [], [], [], ["10.1.0.1", "10.1.0.2", "10.1.0.3"]]
    assert [each.method for each in recording.writes] == ["POST", "PUT"]


@pytest.mark.parametrize(
    "spec", [{"selector": None}, {"type": "ExternalName", "externalName": "a.b"}]
)
async def test_endpoints_by_hand_stay_until_their_service_goes(
    cluster: Services, spec: JSON
) -> None:
    async with cluster.manager(CONFIG) as recording:
        cluster.add_service(**spec)
        cluster.add_endpoints("web", "192.168.0.1")
        cluster.add_pod("a", "10.1.0.1")
        await asyncio.sleep(2 * EDIT_DELAY)
        assert await cluster.ready() == ["192.168.0.1"]
        assert recording.writes == []
        cluster.remove(SERVICES, "web")
        assert await cluster.ready() is None


async def test_deleted_endpoints_are_created_again_at_once(cluster: Services) -> None:
    cluster.add_pod("a", "10.1.0.1")
    async with cluster.manager(CONFIG):
        cluster.add_service()
        assert await cluster.ready() == ["10.1.0.1"]
        cluster.remove(ENDPOINTS, "web")
        assert await cluster.ready() == ["10.1.0.1"]


@pytest.mark.parametrize(
    "edit",
    [
        {"subsets": None},
        {"metadata": {"labels": {"mine": "1"}}},
        {"metadata": {"labels": {"endpoints.kubernetes.io/managed-by": None}}},
        {"metadata": {"annotations": {"endpoints.kubernetes.io/over-capacity": "x"}}},
    ],
)
async def test_edited_endpoints_are_corrected_after_a_delay(
    cluster: Services, edit: JSON
) -> None:
    """Upstream waits for the next change of the service or its pods."""
    cluster.add_pod("a", "10.1.0.1")
    async with cluster.manager(CONFIG):
        cluster.add_service()
        await asyncio.sleep(1)
        before = cluster.endpoints()
        cluster.edit(ENDPOINTS, "web", **edit)
        await asyncio.sleep(EDIT_DELAY / 2)
        edited = cluster.endpoints()
        await asyncio.sleep(EDIT_DELAY)
        after = cluster.endpoints()
    assert before is not None
    assert edited is not None
    assert after is not None
    assert (edited.subsets, edited.metadata.labels, edited.metadata.annotations) != (
        before.subsets,
        before.metadata.labels,
        before.metadata.annotations,
    )
    assert (after.subsets, after.metadata.labels) == (
        before.subsets,
        before.metadata.labels,
    )
    assert after.metadata.annotations is None


async def test_annotations_of_others_stay(cluster: Services) -> None:
    """Also when the controller corrects something else."""
    async with cluster.manager(CONFIG):
        cluster.add_service()
        await asyncio.sleep(1)
        cluster.edit(ENDPOINTS, "web", metadata={"annotations": {"mine": "1"}})
        cluster.add_pod("a", "10.1.0.1")
        await asyncio.sleep(1)
        found = cluster.endpoints()
    assert found is not None
    assert found.metadata.annotations == {
        "mine": "1",
        "endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z",
    }


async def test_leftovers_go_at_the_start_and_locks_stay(cluster: Services) -> None:
    cluster.add_endpoints("old", "192.168.0.1")
    cluster.add_endpoints("lock", "192.168.0.2", annotations=LOCK)
    async with cluster.manager(CONFIG):
        assert await cluster.ready("old") is None
        assert await cluster.ready("lock") == ["192.168.0.2"]
        cluster.add_endpoints("new", "192.168.0.3")
        await asyncio.sleep(2 * EDIT_DELAY)
        assert await cluster.ready("new") == ["192.168.0.3"]


class Replacing(InMemoryTransport):
    """Creates a service and Endpoints by hand when the Endpoints are read."""

    def __init__(self, cluster: Services) -> None:
        super().__init__(cluster.server, TOKEN)
        self._cluster = cluster

    async def request(self, request: Request) -> Response:
        if request.method == "GET" and request.path.endswith("/endpoints/web"):
            self._cluster.add_service(selector=None)
            self._cluster.add_endpoints("web", "192.168.0.1")
        return await super().request(request)


async def test_endpoints_of_a_service_that_is_not_seen_yet_stay(
    cluster: Services,
) -> None:
    async with cluster.manager(CONFIG, transport=Replacing(cluster)):
        cluster.add_service(selector=None)
        await asyncio.sleep(1)
        cluster.remove(SERVICES, "web")
        assert await cluster.ready() == ["192.168.0.1"]


async def test_leftovers_of_a_service_that_is_not_seen_yet_stay(
    cluster: Services,
) -> None:
    """The cache of services is older than that of Endpoints at the start."""
    watches = SilentWatches(cluster.transport)
    watches.silence("services")
    async with asyncio.TaskGroup() as group:
        started = asyncio.Event()
        done = asyncio.Event()

        async def run() -> None:
            async with cluster.manager(CONFIG, transport=watches):
                started.set()
                await done.wait()

        group.create_task(run())
        cluster.add_endpoints("web", "192.168.0.1")
        await asyncio.sleep(1)
        watches.speak("services")
        watches.silence("services")
        cluster.add_service(selector=None)
        await asyncio.sleep(5)
        assert await cluster.ready() == ["192.168.0.1"]
        watches.speak("services")
        done.set()


@pytest.mark.parametrize(
    ("method", "reason", "message"),
    [
        (
            "POST",
            "FailedToCreateEndpoint",
            "Failed to create endpoint for service default/web: no",
        ),
        ("PUT", "FailedToUpdateEndpoint", "Failed to update endpoint default/web: no"),
    ],
)
async def test_a_refused_write_is_reported_and_tried_again(
    cluster: Services, method: str, reason: str, message: str
) -> None:
    transport = Refusing(cluster, method, refusal(422, "Invalid", "no"))
    async with cluster.manager(CONFIG, transport=transport):
        cluster.add_service()
        await asyncio.sleep(1)
        cluster.add_pod("a", "10.1.0.1")
        assert await cluster.ready() == ["10.1.0.1"]
    (event,) = cluster.all(EVENTS)
    assert event["involvedObject"]["kind"] == "Endpoints"
    assert cluster.told() == [
        f"web Warning {reason} [endpoint-controller]: {message}",
    ]


@rows(
    "answer",
    {
        "refused": refusal(500, "InternalError", "no"),
        "a proxy's 404": refusal(404, "NotFound", "no such page"),
        "they are others now": refusal(409, "Conflict", "another uid"),
    },
)
async def test_a_deletion_that_fails_is_tried_again(
    cluster: Services, answer: Response
) -> None:
    cluster.add_endpoints("old", "192.168.0.1")
    async with cluster.manager(CONFIG, transport=Refusing(cluster, "DELETE", answer)):
        assert await cluster.ready("old") is None


async def test_nothing_is_reported_of_a_namespace_that_is_being_deleted(
    cluster: Services,
) -> None:
    cluster.add_namespace("shop")
    cluster.add_pod("a", "10.1.0.1")
    config = make_config(controllers=("endpoint",))
    async with cluster.manager(config) as recording:
        spec = {"ports": [{"port": 80}], "selector": {"app": "web"}}
        cluster.put(SERVICES, "web", "shop", spec=spec)
        await asyncio.sleep(1)
        cluster.remove(NAMESPACES, "shop")
        cluster.remove(ENDPOINTS, "web", "shop")
        await asyncio.sleep(60)
    assert cluster.told() == []
    assert [(each.method, each.status) for each in recording.writes] == [
        ("POST", 201),
        ("POST", 403),
    ]
