"""Objects have a finalizer until they are deleted and unused."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import CONFIG_MAPS, PODS, ConfigMap, Pod
from controller_manager.api.meta import (
    KubeObject,
    ObjectMeta,
    PartialMetadata,
    PartialObject,
)
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import Conflict, NotFound
from controller_manager.client.rest.transport import Request, Response
from controller_manager.control.pod_indexes import claim_names
from controller_manager.control.protection import LiveUse, Protection, Users
from controller_manager.controllers.storage.claimprotection.pods import LivePods
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.runtime.context import ControllerContext
from tests.clusters import TOKEN, Cluster, RecordingTransport

DELETED = "2026-01-01T00:00:00Z"
FINALIZER = "example.com/protection"


def thing(**metadata: Any) -> PartialObject:
    return PartialObject(metadata=PartialMetadata(name="thing", **metadata))


@pytest.mark.parametrize(
    ("changed", "settled", "finalizers"),
    [
        (thing(), False, (FINALIZER,)),
        (thing(finalizers=("a",)), False, ("a", FINALIZER)),
        (thing(finalizers=(FINALIZER,)), True, (FINALIZER,)),
        (thing(finalizers=("a", FINALIZER), deletion_timestamp=DELETED), False, ("a",)),
        (thing(finalizers=(FINALIZER,), deletion_timestamp=DELETED), False, ()),
        (thing(finalizers=("a",), deletion_timestamp=DELETED), True, ("a",)),
        (thing(deletion_timestamp=DELETED), True, ()),
    ],
)
def test_an_object_has_the_finalizer_until_it_is_deleted(
    changed: PartialObject, finalizers: tuple[str, ...], *, settled: bool
) -> None:
    protection = Protection(FINALIZER)
    assert protection.is_settled(changed) is settled
    assert protection.finalizers_of(changed) == finalizers


@pytest.mark.parametrize(
    ("changed", "is_held"),
    [
        (thing(finalizers=(FINALIZER,)), False),
        (thing(finalizers=("a", FINALIZER), deletion_timestamp=DELETED), True),
        (thing(finalizers=("a",), deletion_timestamp=DELETED), False),
    ],
)
def test_the_finalizer_holds_objects(changed: PartialObject, *, is_held: bool) -> None:
    """Only such an object is looked at when something stops using it."""
    assert Protection(FINALIZER).holds(changed) is is_held


def test_deleted_objects_with_the_finalizer_are_found_by_their_namespace() -> None:
    waiting = Protection(FINALIZER).waiting
    held = thing(namespace="shop", finalizers=(FINALIZER,), deletion_timestamp=DELETED)
    present = thing(namespace="shop", finalizers=(FINALIZER,))
    assert [*waiting.function(held)] == ["shop"]
    assert [*waiting.function(present)] == []
    unscoped = thing(finalizers=(FINALIZER,), deletion_timestamp=DELETED)
    assert [*waiting.function(unscoped)] == [""]
    assert waiting.has_same_values is not None
    assert waiting.has_same_values(present, thing(namespace="shop"))
    assert not waiting.has_same_values(present, held)


async def stored(cluster: Cluster, **metadata: Any) -> ConfigMap:
    cluster.add(
        "ConfigMap", "map", metadata={"name": "map", **metadata}, data={"a": ""}
    )
    return await cluster.client.get(CONFIG_MAPS, "default", "map")


@pytest.mark.looptime
async def test_a_finalizer_is_added_to_the_rest(cluster: Cluster) -> None:
    before = await stored(cluster, labels={"a": "b"}, finalizers=["example.com/hold"])
    await Protection(FINALIZER).settle(cluster.client, CONFIG_MAPS, before)
    after = await cluster.client.get(CONFIG_MAPS, "default", "map")
    assert after.metadata.finalizers == ("example.com/hold", FINALIZER)
    assert (after.metadata.labels, after.data) == ({"a": "b"}, {"a": ""})


@pytest.mark.looptime
async def test_an_object_that_has_changed_is_left_alone(cluster: Cluster) -> None:
    """Something may use it by now."""
    before = await stored(cluster)
    patch = {"data": {"a": "changed"}}
    await cluster.client.patch(CONFIG_MAPS, "default", "map", patch)
    with pytest.raises(Conflict):
        await Protection(FINALIZER).settle(cluster.client, CONFIG_MAPS, before)


@pytest.mark.looptime
async def test_an_object_that_is_gone_needs_nothing(cluster: Cluster) -> None:
    """Its deletion is what the finalizer has waited for."""
    before = await stored(cluster)
    await cluster.client.delete(CONFIG_MAPS, "default", "map")
    await Protection(FINALIZER).settle(cluster.client, CONFIG_MAPS, before)
    assert (await cluster.client.list_page(CONFIG_MAPS, "default")).items == []


class Nowhere(RecordingTransport):
    """Knows no path, like a proxy that is set up wrong."""

    async def request(self, request: Request) -> Response:
        assert request.method == "PUT"
        status = {"status": "Failure", "code": 404, "reason": "NotFound"}
        return Response(404, {}, json.dumps(status).encode())


@pytest.mark.looptime
async def test_an_unknown_path_is_no_object_that_is_gone(cluster: Cluster) -> None:
    """The object may still stand; the caller tries again."""
    transport = Nowhere(InMemoryTransport(cluster.server, TOKEN))
    client = Client(transport, cluster.clock)
    lost = ConfigMap(metadata=ObjectMeta(name="map", namespace="default"))
    with pytest.raises(NotFound):
        await Protection(FINALIZER).settle(client, CONFIG_MAPS, lost)


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
