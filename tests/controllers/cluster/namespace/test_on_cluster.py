"""A namespace is emptied, and its status reports the progress."""

import asyncio
import io
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest

from controller_manager.api.core.secrets import SECRETS
from controller_manager.api.core.v1 import (
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    NamespaceCondition,
)
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response, Stream
from controller_manager.controllers.cluster.namespace.conditions import (
    Findings,
    updated_conditions,
)
from controller_manager.observability.logs import Logger, make_logger
from tests.clusters import make_config
from tests.controllers.hands import Hands
from tests.controllers.responses import refusal

pytestmark = pytest.mark.looptime

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
    host: str = "test"

    async def request(self, request: Request) -> Response:
        self.requests.append(f"{request.method} {request.path}")
        spoilt = self.answers.get((request.method, request.path))
        answer: Response = spoilt or await self.inner.request(request)
        return answer

    async def stream(self, request: Request) -> Stream:
        stream: Stream = await self.inner.stream(request)
        return stream

    async def close(self) -> None:
        pass


class Shop(Hands):
    """A cluster with the namespace "shop", which is being deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.add_namespace("shop")
        self.spoilt = Spoilt(self.transport)

    def config_map(self, name: str = "settings") -> None:
        self.put(CONFIG_MAPS, name, "shop")

    def pod(self, grace: int) -> None:
        containers = [{"name": "c", "image": "app:v1"}]
        spec: JSON = {"nodeName": "node", "containers": containers}
        spec["terminationGracePeriodSeconds"] = grace
        self.put(PODS, "slow", "shop", spec=spec)

    @property
    def exists(self) -> bool:
        return "shop" in self.names(NAMESPACES)

    def conditions(self, kind: str = "") -> tuple[dict[str, tuple[str, str]], str]:
        """Return what is not well, and the message of the condition of a kind."""
        found = self.stored(NAMESPACES, "shop")["status"]["conditions"]
        states = {each["type"]: (each["status"], each["reason"]) for each in found}
        messages = {each["type"]: each["message"] for each in found}
        assert states.keys() == WELL.keys()
        unwell = {key: state for key, state in states.items() if state != WELL[key]}
        return unwell, messages[kind] if kind else ""

    @asynccontextmanager
    async def deleting(
        self, seconds: float = 7, logger: Logger | None = None
    ) -> AsyncGenerator[None, None]:
        """Delete the namespace under a manager, which has some seconds first."""
        config = make_config(controllers=("namespace-controller",))
        async with self.manager(config, self.spoilt, logger):
            self.remove(NAMESPACES, "shop")
            await asyncio.sleep(seconds)
            yield


@pytest.fixture
async def cluster() -> Shop:
    return Shop()


async def test_an_empty_namespace_is_deleted_after_five_seconds(cluster: Shop) -> None:
    async with cluster.deleting(4.5):
        assert cluster.exists
        await asyncio.sleep(1)
        assert not cluster.exists


CONTENT = "NamespaceContentRemaining"
REMAIN = {CONTENT: ("True", "SomeResourcesRemain")}


async def test_pods_go_before_objects_they_may_need(cluster: Shop) -> None:
    cluster.pod(grace=20)
    cluster.config_map()
    async with cluster.deleting(8):
        requests = cluster.spoilt.requests
        assert "DELETE /api/v1/namespaces/shop/pods" in requests
        assert "DELETE /api/v1/namespaces/shop/configmaps" not in requests
        message = "Some resources are remaining: pods. has 1 resource instances"
        assert cluster.conditions(CONTENT) == (REMAIN, message)
        cluster.drop(PODS, "slow", "shop")
        await asyncio.sleep(15)
        assert not cluster.exists


async def test_a_namespace_is_looked_at_every_five_minutes(cluster: Shop) -> None:
    """A pod may end long before its grace period, which may be any number.

    Nothing tells the controller that it has ended.
    """
    cluster.pod(grace=2**62)
    async with cluster.deleting(20):
        assert cluster.conditions() == (REMAIN, "")
        cluster.drop(PODS, "slow", "shop")
        await asyncio.sleep(280)
        assert cluster.exists
        await asyncio.sleep(25)
        assert not cluster.exists


MAPS = "/api/v1/namespaces/shop/configmaps"
FAILURE = "NamespaceDeletionContentFailure"
FAILED = {FAILURE: ("True", "ContentDeletionFailed")}


@pytest.mark.parametrize(
    ("verbs", "seconds", "later"),
    [(("DELETE",), 7, 70), (("GET",), 600, 310), (("GET", "DELETE"), 600, 310)],
)
async def test_one_kind_that_cannot_be_deleted_keeps_the_namespace_but_no_other_object(
    cluster: Shop, verbs: tuple[str, ...], seconds: float, later: float
) -> None:
    """It may have objects, which a later namespace of the name would show again."""
    cluster.config_map()
    cluster.put(SECRETS, "s", "shop")
    for verb in verbs:
        cluster.spoilt.answers[verb, MAPS] = refusal(500, "", "the webhook is down")
    async with cluster.deleting(seconds):
        assert cluster.conditions(FAILURE) == (
            FAILED,
            "Failed to delete all resource types, 1 remaining: the webhook is down",
        )
        assert cluster.names(SECRETS) == []
        cluster.add_namespace("other")
        cluster.remove(NAMESPACES, "other")
        await asyncio.sleep(7)
        assert "other" not in cluster.names(NAMESPACES)
        cluster.spoilt.answers.clear()
        await asyncio.sleep(later)
        assert not cluster.exists


WEBHOOK_DOWN = (
    'failed calling webhook "status.shop.example.com": Post '
    '"https://hook.shop.svc:443/": service "hook" not found'
)
STATUS = ("PUT", "/api/v1/namespaces/shop/status")


async def test_an_unwritable_status_does_not_keep_it(cluster: Shop) -> None:
    """A webhook for the status may be served from the namespace that is deleted."""
    log = io.StringIO()
    cluster.config_map()
    cluster.spoilt.answers[STATUS] = refusal(500, "", WEBHOOK_DOWN)
    async with cluster.deleting(logger=make_logger(stream=log)):
        assert not cluster.exists
    assert cluster.spoilt.requests.count(" ".join(STATUS)) == 1
    (line,) = [each for each in log.getvalue().splitlines() if "status" in each]
    assert "Cannot write the status of the namespace" in line
    assert WEBHOOK_DOWN.replace('"', '\\"') in line


async def test_a_changed_status_is_finalized_all_the_same(cluster: Shop) -> None:
    cluster.spoilt.answers[STATUS] = refusal(409, "", "the object has been modified")
    async with cluster.deleting(0):
        cluster.edit(NAMESPACES, "shop", metadata={"labels": {"a": "b"}})
        await asyncio.sleep(7)
        assert not cluster.exists


async def test_an_unannounced_namespace_is_emptied_but_stays(cluster: Shop) -> None:
    """Without the phase, API servers let clients create objects in it.

    They would stand without a namespace.
    """
    cluster.config_map()
    cluster.spoilt.answers[STATUS] = refusal(500, "", WEBHOOK_DOWN)
    async with cluster.deleting(0):
        cluster.edit(NAMESPACES, "shop", status={"phase": "Active"})
        await asyncio.sleep(7)
        assert cluster.names(CONFIG_MAPS) == []
        await asyncio.sleep(300)
        left = cluster.stored(NAMESPACES, "shop")
        assert left["spec"]["finalizers"] == ["kubernetes"]
        cluster.spoilt.answers.clear()
        await asyncio.sleep(61)
        assert not cluster.exists


async def test_groups_that_cannot_be_discovered_are_reported(cluster: Shop) -> None:
    """They keep the namespace, since they may have objects in it."""
    answers = cluster.spoilt.answers
    for path in ("/api", "/apis"):
        # A server without aggregated discovery.
        answers["GET", path] = await cluster.transport.request(Request("GET", path))
    answers["GET", "/apis/policy/v1"] = refusal(503, "", "no endpoints")
    async with cluster.deleting():
        _, message = cluster.conditions("NamespaceDeletionDiscoveryFailure")
        assert message == (
            "Discovery failed for some groups, 1 failing: unable to retrieve the "
            "complete list of server APIs: policy/v1: no endpoints"
        )
        answers.clear()
        await asyncio.sleep(70)
        assert not cluster.exists


async def test_a_malformed_group_version_is_reported(cluster: Shop) -> None:
    """It keeps the namespace, since it may have objects in it."""
    wanted = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    headers = {"accept": wanted}
    answer = await cluster.transport.request(Request("GET", "/apis", headers=headers))
    body = answer.body.replace(b'"name":"policy"', b'"name":"pol/icy"')
    cluster.spoilt.answers["GET", "/apis"] = replace(answer, body=body)
    async with cluster.deleting():
        kind = "NamespaceDeletionGroupVersionParsingFailure"
        assert cluster.conditions(kind) == (
            {kind: ("True", "GroupVersionParsingFailed")},
            "unexpected GroupVersion string: pol/icy/v1",
        )


async def test_without_deletecollection_it_deletes_one_by_one(cluster: Shop) -> None:
    for name in ("a", "b"):
        cluster.config_map(name)
    cluster.spoilt.answers["DELETE", MAPS] = refusal(405, "")
    async with cluster.deleting():
        assert not cluster.exists
    assert {f"DELETE {MAPS}/a", f"DELETE {MAPS}/b"} <= set(cluster.spoilt.requests)


async def test_a_foreign_finalizer_keeps_the_namespace(cluster: Shop) -> None:
    subject = await cluster.client.get(NAMESPACES, "", "shop")
    spec = msgspec.structs.replace(subject.spec, finalizers=("kubernetes", "x.io/y"))
    held = msgspec.structs.replace(subject, spec=spec)
    await cluster.client.update(NAMESPACES, held, "finalize")
    async with cluster.deleting(10):
        left = cluster.stored(NAMESPACES, "shop")
        assert left["spec"]["finalizers"] == ["x.io/y"]


async def test_a_manager_that_starts_late_continues_deletions(cluster: Shop) -> None:
    cluster.remove(NAMESPACES, "shop")
    await asyncio.sleep(100)
    async with cluster.manager(make_config(controllers=("namespace-controller",))):
        await asyncio.sleep(7)
        assert not cluster.exists


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
