"""A namespace is emptied, and its status reports the progress."""

import asyncio
import io
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

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
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers.hands import Hands
from tests.controllers.responses import refusal
from tests.controllers.scenarios import Scenario, scenarios

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

    def pod(self, grace: int | str) -> None:
        containers = [{"name": "c", "image": "app:v1"}]
        spec: JSON = {"nodeName": "node", "containers": containers}
        spec["terminationGracePeriodSeconds"] = int(grace)
        self.put(PODS, "slow", "shop", spec=spec)

    def exists(self) -> bool:
        return "shop" in self.names(NAMESPACES)

    def other(self) -> list[str]:
        return [each for each in self.names(NAMESPACES) if each == "other"]

    def hold(self, finalizer: str) -> None:
        """Give the namespace another finalizer in its spec."""
        kind, _ = self._kind(NAMESPACES, "")
        found = self.stored(NAMESPACES, "shop")
        found["spec"]["finalizers"] = ["kubernetes", finalizer]
        self.server.objects.update(kind, "", "shop", found, "finalize")

    def unwell(self) -> dict[str, tuple[str, str]]:
        return self.conditions()[0]

    def message(self, kind: str) -> str:
        return self.conditions(kind)[1]

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


def config() -> Config:
    return make_config(controllers=("namespace-controller",))


@scenarios("cluster/namespace")
async def test_namespaces_are_emptied(scenario: Scenario) -> None:
    await scenario.play(Shop, config)


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
        assert not cluster.exists()
    assert cluster.spoilt.requests.count(" ".join(STATUS)) == 1
    (line,) = [each for each in log.getvalue().splitlines() if "status" in each]
    assert "Cannot write the status of the namespace" in line
    assert WEBHOOK_DOWN.replace('"', '\\"') in line


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
        assert not cluster.exists()


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
