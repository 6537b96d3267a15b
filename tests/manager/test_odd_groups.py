"""Groups that cannot be read, and outages."""

import asyncio
import io
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, replace

import msgspec
import pytest

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS
from controller_manager.api.core.v1 import CONFIG_MAPS, NAMESPACES
from controller_manager.api.json_objects import JSON
from controller_manager.api.storagemigration.v1beta1 import STORAGE_VERSION_MIGRATIONS
from controller_manager.client.rest import transport
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.errors import NotFound, NotSent, TransportError
from controller_manager.client.rest.request import ServerClock
from controller_manager.explain.explainer import explain_target
from controller_manager.explain.target import parse_target
from controller_manager.explain.view import Unread, View
from controller_manager.observability.logs import make_logger
from controller_manager.options.config import ClientConfig, Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import WORKLOADS, Cluster, make_config
from tests.controllers.autoscaling.podautoscaler import on_cluster
from tests.controllers.builders import deployment_json
from tests.controllers.custom_resources import DEFINITIONS, WIDGETS, definition
from tests.odd_discovery import NULL_VERBS, ODD, PROBLEM, UNREADABLE, WithGroup
from tests.streams import PassedStream, PassedTransport

pytestmark = pytest.mark.looptime


_USERS = (
    "garbage-collector-controller",
    "horizontalpodautoscaling",
    "namespace",
    "resourcequota",
    "svm",
)


def _config() -> Config:
    config = on_cluster.config_of()
    generic = replace(config.generic, controllers=_USERS)
    gates = FeatureGates({"StorageVersionMigrator": True})
    return replace(config, generic=generic, features=gates)


def _add_work(stage: on_cluster.Stage) -> None:
    cluster = stage.cluster
    stage.add_target(1)
    stage.add_pods(on_cluster.ready("400m"))
    stage.add_autoscaler([on_cluster.cpu(10)], 1, 4)
    cluster.add_namespace("shop")
    cluster.add("ResourceQuota", "q", spec={"hard": {"count/secrets": "9"}})
    cluster.add("Secret", "s", type="Opaque")
    wanted = {"spec": {"resource": {"resource": "secrets"}}}
    api = STORAGE_VERSION_MIGRATIONS.api_version
    cluster.add("StorageVersionMigration", "m", api, **wanted)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "gone"}
    orphan = {"metadata": {"name": "orphan", "ownerReferences": [owner]}}
    kind = cluster.server.catalogue.of("v1", "ConfigMap")
    assert kind is not None
    cluster.server.objects.create(kind, "default", orphan)


async def _is_there(
    client: Client, resource: object, namespace: str, name: str
) -> bool:
    try:
        await client.get(resource, namespace, name)  # type: ignore[arg-type]
    except NotFound:
        return False
    return True


async def _results(stage: on_cluster.Stage) -> JSON:
    client = stage.cluster.client
    migration = await client.get(STORAGE_VERSION_MIGRATIONS, "", "m")
    quota = stage.cluster.server.catalogue.of("v1", "ResourceQuota")
    assert quota is not None
    counted = stage.cluster.server.objects.find(quota, "default", "q").obj["status"]
    return {
        "collected": not await _is_there(client, CONFIG_MAPS, "default", "orphan"),
        "scaled": stage.replicas(),
        "emptied": not await _is_there(client, NAMESPACES, "", "shop"),
        "counted": counted["used"],
        "migrated": [
            each.type
            for each in migration.status.conditions or ()
            if each.status == "True"
        ],
    }


_ALL_DONE = {
    "collected": True,
    "scaled": 4,
    "emptied": True,
    "counted": {"count/secrets": "1"},
    "migrated": ["Succeeded"],
}


@pytest.mark.parametrize("is_listed", [False, True])
async def test_null_verbs_stop_no_controller(is_listed: bool) -> None:
    stage = on_cluster.Stage()
    _add_work(stage)
    transport = WithGroup(stage.cluster.transport, NULL_VERBS, is_listed)
    log = io.StringIO()
    logger = make_logger(stream=log)
    async with stage.cluster.manager(_config(), transport, logger):
        await stage.cluster.client.delete(NAMESPACES, "", "shop")
        await asyncio.sleep(60)
        assert await _results(stage) == _ALL_DONE
    assert ODD not in log.getvalue()


async def test_a_group_that_cannot_be_read_stops_only_the_end_of_namespaces() -> None:
    """They may have objects of that group. A log line of each user names the group."""
    stage = on_cluster.Stage()
    _add_work(stage)
    transport = WithGroup(stage.cluster.transport, UNREADABLE)
    log = io.StringIO()
    logger = make_logger(stream=log)
    async with stage.cluster.manager(_config(), transport, logger):
        await stage.cluster.client.delete(NAMESPACES, "", "shop")
        await asyncio.sleep(25)
        assert await _results(stage) == _ALL_DONE | {"emptied": False}
        shop = await stage.cluster.client.get(NAMESPACES, "", "shop")
    conditions = {each.type: each.message for each in shop.status.conditions or ()}
    assert conditions["NamespaceDeletionDiscoveryFailure"] == (
        f"Discovery failed for some groups, 1 failing: {PROBLEM}"
    )
    lines = [each for each in log.getvalue().splitlines() if "Not all" in each]
    assert {ODD in each for each in lines} == {True}
    assert len(lines) == 2  # of the garbage collector and of the quotas


@pytest.mark.parametrize("group", [NULL_VERBS, UNREADABLE])
async def test_an_odd_group_spoils_no_answer(cluster: Cluster, group: JSON) -> None:
    """Its kind, of which no controller has a type, is found by discovery."""
    await cluster.client.create_json(DEFINITIONS, "", msgspec.json.encode(definition()))
    body = {"metadata": {"name": "a", "finalizers": ["example.com/hold"]}}
    await cluster.client.create_json(WIDGETS, "default", msgspec.json.encode(body))
    await cluster.client.delete(WIDGETS, "default", "a")
    view = _view(cluster, group)
    found = await explain_target(view, parse_target(("widgets/a",)), "default")
    assert [each.code for each in found.causes] == ["HeldByFinalizer"]
    assert found.unread == ()


async def test_a_kind_may_be_of_a_group_that_cannot_be_read(cluster: Cluster) -> None:
    """So the answer is not that the API server has no such kind."""
    target = parse_target(("machines/a",))
    with pytest.raises(Unread, match=re.escape(PROBLEM)):
        await explain_target(_view(cluster, UNREADABLE), target, "default")


def _view(cluster: Cluster, group: JSON) -> View:
    transport = WithGroup(cluster.transport, group)
    return View(Client(transport, cluster.clock), ServerClock(cluster.clock), 9)


KINDS = 400
OUTAGE = 2.0
LONGEST_BACKOFF = 2.9
"""Seconds from the end of the outage to the next attempt of a watch, at most: its
attempts come at once, after 0.8 to 1.6 s, and after another 1.6 to 3.2 s."""


@dataclass
class Unreachable(PassedTransport):
    """A transport whose server refuses connections for a while."""

    ended: asyncio.Event = field(default_factory=asyncio.Event)
    is_down: bool = False
    refused: int = 0

    def begin(self) -> None:
        self.is_down = True
        self.ended.set()

    def end(self) -> None:
        self.is_down = False
        self.ended = asyncio.Event()

    async def request(self, request: transport.Request) -> transport.Response:
        self._check(request)
        return await self.inner.request(request)

    async def stream(self, request: transport.Request) -> transport.Stream:
        self._check(request)
        return Broken(await self.inner.stream(request), self.ended)

    def _check(self, request: transport.Request) -> None:
        if self.is_down:
            self.refused += 1
            msg = f"{request.path}: cannot connect: Connection refused"
            raise NotSent(msg)


@dataclass
class Broken(PassedStream):
    ended: asyncio.Event

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        chunks = self.inner.chunks()
        over = asyncio.create_task(self.ended.wait())
        chunk: asyncio.Future[bytes | None] = asyncio.ensure_future(anext(chunks, None))
        try:
            while True:
                await asyncio.wait((chunk, over), return_when=asyncio.FIRST_COMPLETED)
                if not chunk.done():
                    msg = "connection reset by peer"
                    raise TransportError(msg)
                if (data := chunk.result()) is None:
                    return
                yield data
                chunk = asyncio.ensure_future(anext(chunks, None))
        finally:
            over.cancel()
            chunk.cancel()
            await asyncio.gather(over, chunk, return_exceptions=True)
            await chunks.aclose()


@pytest.mark.slow
async def test_a_change_is_seen_soon_after_an_outage(cluster: Cluster) -> None:
    for number in range(KINDS):
        body = msgspec.json.encode(definition(f"things{number}", f"Thing{number}"))
        await cluster.client.create_json(DEFINITIONS, "", body)
    server = Unreachable(cluster.transport)
    config = replace(
        make_config(controllers=("garbage-collector-controller", *WORKLOADS)),
        client=ClientConfig(),
    )
    async with cluster.manager(config, server):
        await asyncio.sleep(60)
        server.begin()
        await asyncio.sleep(OUTAGE)
        server.end()
        assert server.refused
        body = msgspec.json.encode(deployment_json("web"))
        await cluster.client.create_json(DEPLOYMENTS, "default", body)
        await asyncio.sleep(LONGEST_BACKOFF)
        sets = (await cluster.client.list_page(REPLICASETS)).items
        owners = [each.metadata.owner_references or () for each in sets]
        assert [owner.name for each in owners for owner in each] == ["web"]
