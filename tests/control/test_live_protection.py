"""A list of users serves several objects, but only for a few seconds."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import KubeObject
from controller_manager.control.pod_indexes import claim_names
from controller_manager.control.protection import LiveUse, Users
from controller_manager.controllers.storage.claimprotection.pods import LivePods
from controller_manager.runtime.context import ControllerContext

NAMES = ("a", "b", "c")


def claim(name: str) -> KubeObject:
    metadata = {"name": name, "namespace": "n", "uid": name}
    metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return cast("KubeObject", msgspec.convert({"metadata": metadata}, CLAIMS.type))


def pod_of(name: str) -> Pod:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": name}}
    spec = {"nodeName": "node", "volumes": [volume]}
    metadata = {"name": "p", "namespace": "n", "uid": "p"}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Pod)


@dataclass
class Server:
    """Lists pods; a list takes `delay` seconds on its own clock."""

    pods: list[Pod] = field(default_factory=list)
    seconds: float = 0.0
    delay: float = 0.0
    lists: int = 0

    def monotonic(self) -> float:
        return self.seconds

    async def list_all(self, *_: object) -> AsyncIterator[Any]:
        self.lists += 1
        items = tuple(self.pods)
        self.seconds += self.delay
        yield SimpleNamespace(resource_version="5", items=items)

    def context(self) -> ControllerContext:
        cached = SimpleNamespace(resource_version="5")
        informers = SimpleNamespace(informer=lambda _: cached)
        context = SimpleNamespace(clock=self, client=self, informers=informers)
        return cast("ControllerContext", context)


def _waiting(_: str) -> list[KubeObject]:
    return [claim(name) for name in NAMES]


class Asked:
    """Asks one of the two whether a claim is used."""

    def __init__(self, server: Server, *, of_claims: bool) -> None:
        context = server.context()
        users = Users(PODS, lambda pod: (f"n/{name}" for name in claim_names(pod)))
        self._pods = LivePods(context, _waiting) if of_claims else None
        self._use = LiveUse(context, _waiting, users)

    async def is_used(self, name: str) -> bool:
        if self._pods is not None:
            return await self._pods.user_of(claim(name)) is not None
        return await self._use.is_used(claim(name))


@pytest.mark.parametrize("of_claims", [False, True])
async def test_a_list_serves_other_objects_for_five_seconds(*, of_claims: bool) -> None:
    """A watch that stalls must not let an object go by an old list."""
    server = Server()
    asked = Asked(server, of_claims=of_claims)
    assert not await asked.is_used("a")
    server.seconds = 4.9
    assert not await asked.is_used("b")
    assert server.lists == 1
    server.pods = [pod_of("c")]
    server.seconds = 5.0
    assert await asked.is_used("c")
    assert server.lists == 2


@pytest.mark.parametrize("of_claims", [False, True])
async def test_the_age_of_a_list_counts_from_its_end(*, of_claims: bool) -> None:
    """A list of many pages may take longer, and is not made for each object."""
    server = Server(delay=6.0)
    asked = Asked(server, of_claims=of_claims)
    assert [await asked.is_used(name) for name in NAMES] == [False] * 3
    assert server.lists == 1
    server.seconds += 5.0
    assert not await asked.is_used("a")
    assert server.lists == 2
