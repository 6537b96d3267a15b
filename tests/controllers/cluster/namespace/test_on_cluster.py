"""A namespace is emptied, and its status reports the progress."""

import asyncio
import io
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from controller_manager.api.core.v1 import NAMESPACES, Namespace, NamespaceCondition
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import NotFound
from controller_manager.client.rest.transport import Request, Response, Stream
from controller_manager.controllers.cluster.namespace.conditions import (
    Findings,
    updated_conditions,
)
from controller_manager.observability.logs import make_logger
from tests.clusters import Cluster, make_config

CONTROLLER = "namespace-controller"


WELL = {
    "NamespaceDeletionDiscoveryFailure": ("False", "ResourcesDiscovered"),
    "NamespaceDeletionGroupVersionParsingFailure": ("False", "ParsedGroupVersions"),
    "NamespaceDeletionContentFailure": ("False", "ContentDeleted"),
    "NamespaceContentRemaining": ("False", "ContentRemoved"),
    "NamespaceFinalizersRemaining": ("False", "ContentHasNoFinalizers"),
}


@dataclass
class Spoilt:
    """Records requests; answers requests to some paths itself."""

    inner: Any
    answers: dict[tuple[str, str], Response] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    @property
    def host(self) -> str:
        return "test"

    async def request(self, request: Request) -> Response:
        self.requests.append(f"{request.method} {request.path}")
        spoilt = self.answers.get((request.method, request.path))
        if spoilt is not None:
            return spoilt
        answer: Response = await self.inner.request(request)
        return answer

    async def stream(self, request: Request) -> Stream:
        stream: Stream = await self.inner.stream(request)
        return stream

    async def close(self) -> None:
        pass


@pytest_asyncio.fixture
async def spoilt(cluster: Cluster) -> Spoilt:
    cluster.add_namespace("shop")
    return Spoilt(cluster.transport)


def refused(code: int, message: str = "no") -> Response:
    body = {"kind": "Status", "status": "Failure", "code": code, "message": message}
    return Response(code, {}, msgspec.json.encode(body))


async def create(cluster: Cluster, path: str, obj: JSON) -> None:
    kind = cluster.server.catalogue.of(obj["apiVersion"], obj["kind"])
    assert kind is not None, path
    cluster.server.objects.create(kind, path, obj)


def config_map(name: str, **metadata: Any) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
    }


def pod(name: str, grace: int = 30) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeName": "node",
            "terminationGracePeriodSeconds": grace,
            "containers": [{"name": "c", "image": "app:v1"}],
        },
    }


async def namespace(client: Client) -> Namespace | None:
    try:
        return await client.get(NAMESPACES, "", "shop")
    except NotFound:
        return None


def conditions(subject: Namespace | None) -> dict[str, tuple[str, str]]:
    assert subject is not None
    return {
        each.type: (each.status, each.reason)
        for each in subject.status.conditions or ()
    }


def message(subject: Namespace | None, kind: str) -> str:
    assert subject is not None
    found = {each.type: each.message for each in subject.status.conditions or ()}
    return found[kind]


def managed(cluster: Cluster, spoilt: Spoilt, **more: Any) -> Any:
    config = make_config(controllers=(CONTROLLER,))
    return cluster.manager(config, transport=spoilt, **more)


@pytest.mark.looptime
async def test_an_empty_namespace_is_deleted_after_five_seconds(
    cluster: Cluster, spoilt: Spoilt
) -> None:
    async with managed(cluster, spoilt):
        await cluster.client.delete(NAMESPACES, "", "shop")
        await asyncio.sleep(4.5)
        assert await namespace(cluster.client) is not None
        await asyncio.sleep(1)
        assert await namespace(cluster.client) is None


@pytest.mark.looptime
async def test_pods_are_deleted_before_objects_that_they_may_need(
    cluster: Cluster, spoilt: Spoilt
) -> None:
    await create(cluster, "shop", pod("slow", grace=20))
    await create(cluster, "shop", config_map("settings"))
    async with managed(cluster, spoilt):
        await cluster.client.delete(NAMESPACES, "", "shop")
        await asyncio.sleep(8)
        assert "DELETE /api/v1/namespaces/shop/pods" in spoilt.requests
        assert "DELETE /api/v1/namespaces/shop/configmaps" not in spoilt.requests
        subject = await namespace(cluster.client)
        assert conditions(subject) == {
            **WELL,
            "NamespaceContentRemaining": ("True", "SomeResourcesRemain"),
        }
        assert message(subject, "NamespaceContentRemaining") == (
            "Some resources are remaining: pods. has 1 resource instances"
        )
        kind = cluster.server.catalogue.find("", "v1", "pods")
        assert kind is not None
        cluster.server.storage.collection("pods").remove(("shop", "slow"))
        await asyncio.sleep(15)
        assert await namespace(cluster.client) is None


@pytest.mark.looptime
async def test_a_namespace_is_looked_at_every_five_minutes(
    cluster: Cluster, spoilt: Spoilt
) -> None:
    """A pod may end long before its grace period, which may be any number.

    Nothing tells the controller that it has ended.
    """
    await create(cluster, "shop", pod("slow", grace=2**62))
    async with managed(cluster, spoilt):
        await cluster.client.delete(NAMESPACES, "", "shop")
        await asyncio.sleep(20)
        assert conditions(await namespace(cluster.client)) == {
            **WELL,
            "NamespaceContentRemaining": ("True", "SomeResourcesRemain"),
        }
        cluster.server.storage.collection("pods").remove(("shop", "slow"))
        await asyncio.sleep(280)
        assert await namespace(cluster.client) is not None
        await asyncio.sleep(25)
        assert await namespace(cluster.client) is None


@pytest.mark.looptime
async def test_objects_that_cannot_be_deleted_are_reported_and_retried(
    cluster: Cluster, spoilt: Spoilt
) -> None:
    await create(cluster, "shop", config_map("settings"))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    await create(cluster, "shop", secret)
    where = "/api/v1/namespaces/shop/configmaps"
    spoilt.answers["DELETE", where] = refused(500, "the webhook is down")
    async with managed(cluster, spoilt):
        await cluster.client.delete(NAMESPACES, "", "shop")
        await asyncio.sleep(7)
        subject = await namespace(cluster.client)
        assert conditions(subject) == {
            **WELL,
            "NamespaceDeletionContentFailure": ("True", "ContentDeletionFailed"),
        }
        assert message(subject, "NamespaceDeletionContentFailure") == (
            "Failed to delete all resource types, 1 remaining: the webhook is down"
        )
        assert len(cluster.server.storage.collection("secrets")) == 0
        spoilt.answers.clear()
        await asyncio.sleep(70)
        assert await namespace(cluster.client) is None


@pytest.mark.looptime
@pytest.mark.parametrize("verbs", [("GET",), ("GET", "DELETE")])
async def test_one_kind_that_cannot_be_listed_keeps_the_namespace_but_no_other_object(
    cluster: Cluster, spoilt: Spoilt, verbs: tuple[str, ...]
) -> None:
    """It may have objects, which a later namespace of the name would show again."""
    await create(cluster, "shop", config_map("settings"))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    await create(cluster, "shop", secret)
    where = "/api/v1/namespaces/shop/configmaps"
    for verb in verbs:
        spoilt.answers[verb, where] = refused(500, "conversion webhook is down")
    async with managed(cluster, spoilt):
        await cluster.client.delete(NAMESPACES, "", "shop")
        await asyncio.sleep(600)
        subject = await namespace(cluster.client)
        assert conditions(subject) == {
            **WELL,
            "NamespaceDeletionContentFailure": ("True", "ContentDeletionFailed"),
        }
        assert message(subject, "NamespaceDeletionContentFailure") == (
            "Failed to delete all resource types, 1 remaining: "
            "conversion webhook is down"
        )
        assert len(cluster.server.storage.collection("secrets")) == 0
        cluster.add_namespace("other")
        await cluster.client.delete(NAMESPACES, "", "other")
        await asyncio.sleep(7)
        left = (await cluster.client.list_page(NAMESPACES)).items
        assert "other" not in {each.metadata.name for each in left}
        spoilt.answers.clear()
        await asyncio.sleep(310)
        assert await namespace(cluster.client) is None


WEBHOOK_DOWN = (
    'failed calling webhook "status.shop.example.com": Post '
    '"https://hook.shop.svc:443/": service "hook" not found'
)
STATUS = ("PUT", "/api/v1/namespaces/shop/status")


@pytest.mark.looptime
async def test_a_status_that_cannot_be_written_does_not_keep_the_namespace(
    cluster: Cluster, spoilt: Spoilt
) -> None:
    """A webhook for the status may be served from the namespace that is deleted."""
    log = io.StringIO()
    await create(cluster, "shop", config_map("settings"))
    spoilt.answers[STATUS] = refused(500, WEBHOOK_DOWN)
    async with managed(cluster, spoilt, logger=make_logger(stream=log)):
        await cluster.client.delete(NAMESPACES, "", "shop")
        await asyncio.sleep(7)
        assert await namespace(cluster.client) is None
    assert spoilt.requests.count(" ".join(STATUS)) == 1
    (line,) = [each for each in log.getvalue().splitlines() if "status" in each]
    assert "Cannot write the status of the namespace" in line
    assert WEBHOOK_DOWN.replace('"', '\\"') in line


@pytest.mark.looptime
async def test_a_namespace_whose_status_has_changed_is_finalized_all_the_same(
    cluster: Cluster, spoilt: Spoilt
) -> None:
    spoilt.answers[STATUS] = refused(409, "the object has been modified")
    async with managed(cluster, spoilt):
        await cluster.client.delete(NAMESPACES, "", "shop")
        labels = {"metadata": {"labels": {"a": "b"}}}
        await cluster.client.patch(NAMESPACES, "", "shop", labels)
        await asyncio.sleep(7)
        assert await namespace(cluster.client) is None


@pytest.mark.looptime
async def test_a_namespace_that_cannot_be_announced_is_emptied_but_stays(
    cluster: Cluster, spoilt: Spoilt
) -> None:
    """Without the phase, API servers let clients create objects in it.

    They would stand without a namespace.
    """
    await create(cluster, "shop", config_map("settings"))
    spoilt.answers[STATUS] = refused(500, WEBHOOK_DOWN)
    await cluster.client.delete(NAMESPACES, "", "shop")
    stored = await cluster.client.get(NAMESPACES, "", "shop")
    status = msgspec.structs.replace(stored.status, phase="Active")
    active = msgspec.structs.replace(stored, status=status)
    await cluster.client.update(NAMESPACES, active, "status")
    async with managed(cluster, spoilt):
        await asyncio.sleep(7)
        assert len(cluster.server.storage.collection("configmaps")) == 0
        await asyncio.sleep(300)
        left = await namespace(cluster.client)
        assert left is not None
        assert left.spec.finalizers == ("kubernetes",)
        spoilt.answers.clear()
        await asyncio.sleep(61)
        assert await namespace(cluster.client) is None


@pytest.mark.looptime
async def test_groups_that_cannot_be_discovered_are_reported(
    cluster: Cluster, spoilt: Spoilt
) -> None:
    """They keep the namespace, since they may have objects in it."""
    for path in ("/api", "/apis"):
        # A server without aggregated discovery.
        answer = await cluster.transport.request(Request("GET", path))
        spoilt.answers["GET", path] = answer
    spoilt.answers["GET", "/apis/policy/v1"] = refused(503, "no endpoints")
    async with managed(cluster, spoilt):
        await cluster.client.delete(NAMESPACES, "", "shop")
        await asyncio.sleep(7)
        subject = await namespace(cluster.client)
        assert message(subject, "NamespaceDeletionDiscoveryFailure") == (
            "Discovery failed for some groups, 1 failing: unable to retrieve the "
            "complete list of server APIs: policy/v1: no endpoints"
        )
        spoilt.answers.clear()
        await asyncio.sleep(70)
        assert await namespace(cluster.client) is None


@pytest.mark.looptime
async def test_a_malformed_group_version_is_reported(
    cluster: Cluster, spoilt: Spoilt
) -> None:
    """It keeps the namespace, since it may have objects in it."""
    wanted = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    headers = {"accept": wanted}
    answer = await cluster.transport.request(Request("GET", "/apis", headers=headers))
    body = answer.body.replace(b'"name":"policy"', b'"name":"pol/icy"')
    spoilt.answers["GET", "/apis"] = replace(answer, body=body)
    async with managed(cluster, spoilt):
        await cluster.client.delete(NAMESPACES, "", "shop")
        await asyncio.sleep(7)
        subject = await namespace(cluster.client)
        kind = "NamespaceDeletionGroupVersionParsingFailure"
        assert conditions(subject) == {
            **WELL,
            kind: ("True", "GroupVersionParsingFailed"),
        }
        assert message(subject, kind) == "unexpected GroupVersion string: pol/icy/v1"


@pytest.mark.looptime
async def test_a_resource_without_deletecollection_is_deleted_one_by_one(
    cluster: Cluster, spoilt: Spoilt
) -> None:
    for name in ("a", "b"):
        await create(cluster, "shop", config_map(name))
    where = "/api/v1/namespaces/shop/configmaps"
    spoilt.answers["DELETE", where] = refused(405)
    async with managed(cluster, spoilt):
        await cluster.client.delete(NAMESPACES, "", "shop")
        await asyncio.sleep(7)
        assert await namespace(cluster.client) is None
    assert {f"DELETE {where}/a", f"DELETE {where}/b"} <= set(spoilt.requests)


@pytest.mark.looptime
async def test_a_finalizer_of_another_controller_keeps_the_namespace(
    cluster: Cluster, spoilt: Spoilt
) -> None:
    subject = await namespace(cluster.client)
    assert subject is not None
    spec = msgspec.structs.replace(subject.spec, finalizers=("kubernetes", "x.io/y"))
    await cluster.client.update(
        NAMESPACES, msgspec.structs.replace(subject, spec=spec), "finalize"
    )
    async with managed(cluster, spoilt):
        await cluster.client.delete(NAMESPACES, "", "shop")
        await asyncio.sleep(10)
        left = await namespace(cluster.client)
        assert left is not None
        assert left.spec.finalizers == ("x.io/y",)


@pytest.mark.looptime
async def test_a_manager_that_starts_late_continues_deletions(
    cluster: Cluster, spoilt: Spoilt
) -> None:
    await cluster.client.delete(NAMESPACES, "", "shop")
    await asyncio.sleep(100)
    async with managed(cluster, spoilt):
        await asyncio.sleep(7)
        assert await namespace(cluster.client) is None


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    first = updated_conditions((), Findings(finalizers=Counter({"a/b": 1})), "t1")
    second = updated_conditions(first, Findings(finalizers=Counter({"a/b": 2})), "t2")
    third = updated_conditions(second, Findings(), "t3")
    times = [
        [each.last_transition_time for each in conditions]
        for conditions in (first, second, third)
    ]
    assert times == [["t1"] * 5, ["t1"] * 5, ["t1"] * 4 + ["t3"]]
    assert second[-1] == NamespaceCondition(
        type="NamespaceFinalizersRemaining",
        status="True",
        last_transition_time="t1",
        reason="SomeFinalizersRemain",
        message="Some content in the namespace has finalizers remaining: a/b in 2 "
        "resource instances",
    )
    assert updated_conditions(third, Findings(), "t4") == third
