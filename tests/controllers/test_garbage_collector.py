"""What the garbage collector deletes, and what it leaves alone."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import msgspec
import pytest

from controller_manager.api.core.v1 import CONFIG_MAPS, EVENTS
from controller_manager.api.meta import OwnerReference, PartialMetadata, PartialObject
from controller_manager.api.resource import Resource
from controller_manager.app import ControllerManager
from controller_manager.client.builder import Connections
from controller_manager.client.client import (
    DeleteOptions,
    PatchType,
    PropagationPolicy,
)
from controller_manager.client.errors import NotFound
from controller_manager.client.transport import Request, Response, Stream
from controller_manager.controllers.cluster.garbagecollector.controller import (
    GarbageCollector,
)
from controller_manager.controllers.cluster.garbagecollector.dump import draw
from controller_manager.controllers.cluster.garbagecollector.graph import (
    Graph,
    Identity,
    Node,
)
from controller_manager.devcluster.kinds.apiextensions.custom_resources import (
    follow_definitions,
)
from controller_manager.options.config import GarbageCollectorConfig
from controller_manager.runtime.controller import WorkerGroup
from controller_manager.runtime.outcome import Outcome
from tests.clusters import Cluster, make_config, run_manager
from tests.controllers.builders import JSON

pytestmark = pytest.mark.looptime

COLLECTOR = "garbage-collector-controller"
NAMESPACES_PATH = "/api/v1/namespaces"

WIDGETS: Resource[Any] = Resource("example.com", "v1", "widgets", "Widget", dict)
DEFINITIONS: Resource[Any] = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    dict,
    namespaced=False,
)
SECRETS: Resource[Any] = Resource("", "v1", "secrets", "Secret", dict)
ROLES: Resource[Any] = Resource(
    "rbac.authorization.k8s.io",
    "v1",
    "clusterroles",
    "ClusterRole",
    dict,
    namespaced=False,
)


def definition(plural: str = "widgets", kind: str = "Widget") -> JSON:
    """Return a custom resource definition."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }


@dataclass
class User:
    """What a user of the cluster does and sees."""

    cluster: Cluster

    async def create(
        self,
        name: str,
        *owners: JSON,
        resource: Resource[Any] = CONFIG_MAPS,
        namespace: str = "default",
        **metadata: Any,
    ) -> JSON:
        """Create an object with these owners; return a reference to it."""
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, "ownerReferences": list(owners), **metadata},
        }
        await self.cluster.client.create_json(
            replace(resource, type=dict), namespace, msgspec.json.encode(body)
        )
        obj = await self.cluster.client.get_json(resource, namespace, name)
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "name": name,
            "uid": obj["metadata"]["uid"],
        }

    async def delete(
        self,
        name: str,
        policy: PropagationPolicy = PropagationPolicy.BACKGROUND,
        resource: Resource[Any] = CONFIG_MAPS,
    ) -> None:
        await self.cluster.client.delete(
            resource, "default", name, DeleteOptions(propagation_policy=policy)
        )

    async def metadata(
        self, name: str, resource: Resource[Any] = CONFIG_MAPS
    ) -> JSON | None:
        """Return an object's metadata, `None` if there is none."""
        try:
            obj = await self.cluster.client.get_json(resource, "default", name)
        except NotFound:
            return None
        found: JSON = obj["metadata"]
        return found

    async def names(self, resource: Resource[Any] = CONFIG_MAPS) -> list[str]:
        page = await self.cluster.client.list_page(
            replace(resource, type=PartialObject), "default"
        )
        return [each.metadata.name for each in page.items]


@pytest.fixture
def user(cluster: Cluster) -> User:
    return User(cluster)


def blocking(reference: JSON) -> JSON:
    return {**reference, "blockOwnerDeletion": True}


@asynccontextmanager
async def collecting(
    cluster: Cluster, transport: Any = None
) -> AsyncGenerator[GarbageCollector, None]:
    """Run the collector while entered."""
    config = make_config(controllers=(COLLECTOR,))
    connections = Connections(transport or cluster.transport)
    async with run_manager(connections, cluster.clock, cluster.rng, config) as manager:
        yield collector_of(manager)


def collector_of(manager: ControllerManager) -> GarbageCollector:
    pools = manager.controllers[COLLECTOR].controller
    assert isinstance(pools, WorkerGroup)
    collector: GarbageCollector = pools._pools[0]._reconcile.__self__  # type: ignore[attr-defined]
    return collector


async def test_what_was_there_before_is_collected(user: User) -> None:
    """A dangling object, and none of those that have an owner."""
    owner = await user.create("owner")
    await user.create("kept", owner)
    await user.create("lost", {**owner, "uid": "gone"})
    async with collecting(user.cluster):
        await asyncio.sleep(3)
        assert await user.names() == ["kept", "owner"]


async def test_an_owner_in_another_namespace_is_none(user: User) -> None:
    """The dependent goes, and an event says why."""
    user.cluster.add_namespace("other")
    owner = await user.create("owner", namespace="other")
    async with collecting(user.cluster):
        await asyncio.sleep(3)
        lost = await user.create("lost", owner)
        await asyncio.sleep(3)
        assert await user.metadata("lost") is None
        events = (await user.cluster.client.list_page(EVENTS)).items
    meant = f"[v1/ConfigMap, namespace: default, name: owner, uid: {owner['uid']}]"
    message = f'ownerRef {meant} does not exist in namespace "default"'
    assert [
        (each.type, each.reason, each.message, each.involved_object.uid)
        for each in events
    ] == [("Warning", "OwnerRefInvalidNamespace", message, lost["uid"])]
    assert events[0].source.component == COLLECTOR


async def test_an_owner_of_the_cluster_may_own_in_any_namespace(user: User) -> None:
    """And takes its dependents along."""
    owner = await user.create("owner", resource=ROLES)
    await user.create("dependent", owner)
    async with collecting(user.cluster):
        await asyncio.sleep(3)
        assert await user.names() == ["dependent"]
        await user.delete("owner", resource=ROLES)
        await asyncio.sleep(3)
        assert await user.names() == []


async def test_an_object_of_no_namespace_whose_owner_is_of_one_stays(
    user: User,
) -> None:
    """Such a reference is a mistake; nobody can say what is meant."""
    owner = await user.create("owner")
    await user.create("role", {**owner, "uid": "gone"}, resource=ROLES)
    async with collecting(user.cluster):
        await asyncio.sleep(40)
        assert await user.metadata("role", ROLES) is not None


async def test_an_owner_of_an_unknown_kind_keeps_its_dependents(user: User) -> None:
    """Until the kind is served, and it can be seen that there is no such object."""
    stranger = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w"}
    await user.create("dependent", {**stranger, "uid": "gone"})
    async with collecting(user.cluster):
        await asyncio.sleep(100)
        assert await user.names() == ["dependent"]
        await _define(user)
        await asyncio.sleep(5)
        assert await user.names() == []


async def _define(user: User) -> None:
    body = msgspec.json.encode(definition())
    await user.cluster.client.create_json(DEFINITIONS, "", body)


async def test_custom_resources_are_collected_from_soon_after_they_are_defined(
    user: User,
) -> None:
    """As owners and as dependents; merge patches untie them from one of two."""
    async with collecting(user.cluster):
        await asyncio.sleep(3)
        await _define(user)
        one = await user.create("one", resource=WIDGETS)
        two = await user.create("two", resource=WIDGETS)
        await user.create("of-one", one)
        await user.create("of-both", one, two, resource=WIDGETS)
        await asyncio.sleep(3)
        await user.delete("one", resource=WIDGETS)
        await asyncio.sleep(3)
        assert await user.names() == []
        untied = await user.metadata("of-both", WIDGETS)
        assert untied is not None
        assert untied["ownerReferences"] == [two]


async def test_a_resource_that_is_served_no_more_is_watched_no_more(
    user: User,
) -> None:
    """What it owned may be owned still, so it stays."""
    await _define(user)
    owner = await user.create("owner", resource=WIDGETS)
    await user.create("dependent", owner)
    async with collecting(user.cluster) as collector:
        await asyncio.sleep(3)
        monitors = collector._monitors._monitors
        assert ("example.com", "widgets") in monitors
        kinds = user.cluster.server.catalogue
        found = kinds.find("example.com", "v1", "widgets")
        assert found is not None
        kinds.remove(found)
        await asyncio.sleep(60)
        assert ("example.com", "widgets") in monitors  # it may come back
        await asyncio.sleep(60)
        assert ("example.com", "widgets") not in monitors
        assert await user.names() == ["dependent"]


async def test_a_circle_is_deleted_in_the_foreground(user: User) -> None:
    """Each of the two would wait for the other."""
    one = await user.create("one")
    two = await user.create("two", blocking(one))
    await _own(user, "one", blocking(two))
    async with collecting(user.cluster):
        await asyncio.sleep(3)
        await user.delete("one", PropagationPolicy.FOREGROUND)
        await asyncio.sleep(10)
        assert await user.names() == []


async def _own(user: User, name: str, owner: JSON) -> None:
    await user.cluster.client.patch(
        CONFIG_MAPS, "default", name, {"metadata": {"ownerReferences": [owner]}}
    )


async def test_a_dependent_that_stops_to_block_lets_its_owner_go(user: User) -> None:
    """It is held by a finalizer of somebody else's all the while."""
    owner = await user.create("owner")
    await user.create("held", blocking(owner), finalizers=["example.com/hold"])
    async with collecting(user.cluster):
        await asyncio.sleep(3)
        await user.delete("owner", PropagationPolicy.FOREGROUND)
        await asyncio.sleep(3)
        assert await user.names() == ["held", "owner"]
        await _own(user, "held", {**owner, "blockOwnerDeletion": False})
        await asyncio.sleep(3)
        assert await user.names() == ["held"]


async def test_orphans_keep_their_other_owners(user: User) -> None:
    """Only the one that goes is taken off."""
    one = await user.create("one")
    two = await user.create("two")
    await user.create("dependent", one, two)
    async with collecting(user.cluster):
        await asyncio.sleep(3)
        await user.delete("one", PropagationPolicy.ORPHAN)
        await asyncio.sleep(3)
        assert await user.names() == ["dependent", "two"]
        metadata = await user.metadata("dependent")
    assert metadata is not None
    assert metadata["ownerReferences"] == [two]


async def test_an_orphan_that_no_watch_has_shown_is_untied_all_the_same(
    user: User,
) -> None:
    """It would be collected once the watch does."""
    owner = await user.create("owner")
    await user.create("early", owner)
    async with collecting(user.cluster) as collector:
        await asyncio.sleep(3)
        with mock.patch.object(collector.graph, "_add_to_owners"):
            await user.create("late", owner)
            await asyncio.sleep(1)
        await user.delete("owner", PropagationPolicy.ORPHAN)
        await asyncio.sleep(3)
        found = [await user.metadata(name) for name in ("early", "late", "owner")]
    assert [each and "ownerReferences" in each for each in found] == [
        False,
        False,
        None,
    ]


async def test_a_deletion_that_began_before_the_start_goes_on(user: User) -> None:
    """In the foreground and by orphaning."""
    one, two = await user.create("one"), await user.create("two")
    await user.create("of-one", blocking(one))
    await user.create("of-two", two)
    await user.delete("one", PropagationPolicy.FOREGROUND)
    await user.delete("two", PropagationPolicy.ORPHAN)
    async with collecting(user.cluster):
        await asyncio.sleep(5)
        assert await user.names() == ["of-two"]


@dataclass
class Interfering:
    """Lets something happen right before a request, or refuses it."""

    inner: Any
    broken: str = ""
    before: Any = None
    empty: bool = False
    requests: list[Request] = field(default_factory=list)
    silent: str = ""
    speaks: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def host(self) -> str:
        return "test"

    async def request(self, request: Request) -> Response:
        self.requests.append(request)
        if self.before is not None:
            await self.before(request)
        if self.broken and request.path.endswith(self.broken):
            return Response(500, {}, b'{"kind":"Status","code":500}')
        if self.empty and request.path in ("/api", "/apis"):
            media = (
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            )
            return Response(200, {"content-type": media}, b'{"items":[]}')
        answer: Response = await self.inner.request(request)
        return answer

    async def stream(self, request: Request) -> Stream:
        if self.silent and request.path.endswith(self.silent):
            await self.speaks.wait()
        if self.broken and request.path.endswith(self.broken):
            answer = replace(request, path="/nowhere")
            return await self.inner.stream(answer)  # type: ignore[no-any-return]
        stream: Stream = await self.inner.stream(request)
        return stream


async def test_a_resource_that_cannot_be_listed_blocks_the_others_for_a_while(
    user: User,
) -> None:
    """For half a minute, not for ever."""
    transport = Interfering(user.cluster.transport, broken="/secrets")
    await user.create(
        "lost",
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "gone"},
    )
    async with collecting(user.cluster, transport):
        await asyncio.sleep(20)
        assert await user.names() == ["lost"]
        await asyncio.sleep(15)
        assert await user.names() == []


async def test_orphans_of_a_kind_that_was_not_read_yet_are_untied(
    user: User,
) -> None:
    """Nobody can have seen them, so the API server is asked (seed 22)."""
    owner = await user.create("owner")
    await user.create("kept", owner, resource=SECRETS)
    transport = Interfering(user.cluster.transport, silent="/secrets")
    async with collecting(user.cluster, transport):
        await user.delete("owner", PropagationPolicy.ORPHAN)
        await asyncio.sleep(60)
        assert await user.names() == []
        transport.speaks.set()
        await asyncio.sleep(600)
        kept = await user.metadata("kept", SECRETS)
        assert kept is not None
        assert "ownerReferences" not in kept


async def test_workers_start_when_the_graph_is_whole(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """50,000 owners that were looked at five times a second kept the loop busy."""
    looks: list[float] = []
    attempt = GarbageCollector.attempt_to_delete

    async def counted(self: GarbageCollector, uid: str) -> Outcome:
        looks.append(asyncio.get_running_loop().time())
        return await attempt(self, uid)

    monkeypatch.setattr(GarbageCollector, "attempt_to_delete", counted)
    for number in range(20):
        lost = {"apiVersion": "v1", "kind": "ConfigMap", "name": f"x{number}"}
        await user.create(f"lost-{number}", {**lost, "uid": f"gone-{number}"})
    transport = Interfering(user.cluster.transport, broken="/secrets")
    async with collecting(user.cluster, transport) as collector:
        await asyncio.sleep(29)
        assert (len(looks), len(collector.deletions)) == (0, 20)
        await asyncio.sleep(5)
        assert await user.names() == []
    assert min(looks) == pytest.approx(30, abs=2)


HOSTILE = (
    ("v1", "Namespace", "kube-system/services/https:admin-ui:443/proxy/api/restart"),
    ("v1", "ConfigMap", "../../../../api/v1/nodes"),
    ("v1", "Secret", "a%2fb"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", ".."),
)


async def test_an_owner_with_a_hostile_name_is_asked_for_nowhere(user: User) -> None:
    """The collector's token may do much: its requests go where owners can be."""
    for number, (version, kind, name) in enumerate(HOSTILE):
        owner = {"apiVersion": version, "kind": kind, "name": name, "uid": f"u{number}"}
        await user.create(f"kept-{number}", owner)
    lost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "gone"}
    await user.create("lost", lost)
    transport = Interfering(user.cluster.transport)
    async with collecting(user.cluster, transport) as collector:
        await asyncio.sleep(2000)
        kept = [f"kept-{number}" for number in range(len(HOSTILE))]
        assert await user.names() == kept
        for name in kept:
            await user.delete(name)
        await asyncio.sleep(10)
        assert collector._unknown == {}
    asked = {request.path for request in transport.requests}
    assert [path for path in asked if "proxy" in path or ".." in path] == []
    assert [path for path in asked if "%" in path or path.endswith("/nodes/")] == []


async def test_nothing_is_remembered_of_what_referred_to_an_unknown_kind(
    user: User,
) -> None:
    """Once it is gone itself."""
    stranger = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w"}
    async with collecting(user.cluster) as collector:
        for number in range(10):
            await user.create(f"d{number}", {**stranger, "uid": f"gone-{number}"})
        await asyncio.sleep(40)
        assert len(collector._unknown) >= 10
        for number in range(10):
            await user.delete(f"d{number}")
        await asyncio.sleep(1)
        assert collector._unknown == {}
        invented = [kind for kind in collector.graph._kinds if kind[1] == "Widget"]
        assert invented == []


async def test_nothing_is_remembered_of_a_kind_that_is_served_no_more(
    user: User,
) -> None:
    """As an owner or as a dependent."""
    async with collecting(user.cluster) as collector:
        await _define(user)
        await asyncio.sleep(5)
        one = await user.create("one", resource=WIDGETS)
        await user.create("two", one, resource=WIDGETS)
        await asyncio.sleep(5)
        widget = ("example.com", "Widget")
        assert widget in collector.graph._kinds
        await user.cluster.client.delete(DEFINITIONS, "", "widgets.example.com")
        await asyncio.sleep(300)
        assert widget not in collector.graph._kinds


def _serve_widgets(user: User, *, served: bool) -> None:
    """Have the API server know of widgets, or not, whatever is defined."""
    definitions = user.cluster.server.storage.collection(
        "customresourcedefinitions.apiextensions.k8s.io"
    )
    stored = definitions.get(("", "widgets.example.com"))
    assert stored is not None
    kinds = user.cluster.server.catalogue
    if served:
        follow_definitions(user.cluster.server.objects, kinds)
        return
    found = kinds.find("example.com", "v1", "widgets")
    assert found is not None
    kinds.remove(found)


async def test_that_a_kind_is_not_served_says_nothing_of_its_objects(
    user: User,
) -> None:
    """An API server that has just started may not know it yet."""
    await _define(user)
    widget = await user.create("widget", resource=WIDGETS)
    other = await user.create("other")
    await user.create("dependent", other, widget)
    async with collecting(user.cluster):
        await asyncio.sleep(3)
        _serve_widgets(user, served=False)
        await user.delete("other")
        await asyncio.sleep(20)
        assert await user.names() == ["dependent"]
        _serve_widgets(user, served=True)
        await asyncio.sleep(40)
        metadata = await user.metadata("dependent")
        assert metadata is not None
        assert metadata["ownerReferences"] == [widget]


async def test_what_a_dropped_kinds_objects_owned_is_collected(user: User) -> None:
    """They were seen to go, though nobody can be asked about them any more."""
    await _define(user)
    owner = await user.create("owner", resource=WIDGETS)
    await user.create("dependent", owner)
    reads: list[str] = []

    async def be_slow(request: Request) -> None:
        reads.append(request.path)
        await asyncio.sleep(0.02)

    transport = Interfering(user.cluster.transport, before=be_slow)
    async with collecting(user.cluster, transport):
        await asyncio.sleep(3)
        await user.cluster.client.delete(DEFINITIONS, "", "widgets.example.com")
        await asyncio.sleep(10)
        assert await user.names() == []


async def test_a_kind_that_nobody_ever_saw_is_asked_about_ever_more_seldom(
    user: User,
) -> None:
    """Many clusters have references to kinds of long ago."""
    stranger = {"apiVersion": "extensions/v1beta1", "kind": "Thing", "name": "t"}
    await user.create("dependent", {**stranger, "uid": "gone"})
    reads: list[str] = []

    async def note(request: Request) -> None:
        if "configmaps" in request.path and request.method == "GET":
            reads.append(request.path)

    transport = Interfering(user.cluster.transport, before=note)
    async with collecting(user.cluster, transport):
        await asyncio.sleep(7200)
        assert len(reads) < 20
        assert await user.names() == ["dependent"]


async def _serve_versions(user: User, *served: str) -> None:
    versions: list[JSON] = [
        {"name": name, "served": name in served, "storage": name == "v1", "schema": {}}
        for name in ("v1", "v2")
    ]
    patch = {"spec": {"versions": versions}}
    await user.cluster.client.patch(
        replace(DEFINITIONS, type=PartialObject),
        "",
        "widgets.example.com",
        patch,
        PatchType.MERGE,
    )


async def test_a_better_version_of_a_resource_changes_nothing(user: User) -> None:
    """A foreground deletion still waits for what the old one has shown."""
    await _define(user)
    owner = await user.create("owner")
    await user.create(
        "held", blocking(owner), resource=WIDGETS, finalizers=["example.com/hold"]
    )
    async with collecting(user.cluster) as collector:
        await asyncio.sleep(3)
        await user.delete("owner", PropagationPolicy.FOREGROUND)
        await _serve_versions(user, "v1", "v2")
        await asyncio.sleep(130)
        assert await user.names() == ["owner"]
        await _serve_versions(user, "v2")
        await asyncio.sleep(130)
        assert await user.names() == ["owner"]
        versions = {
            node.identity.api_version
            for node in collector.graph.nodes()
            if node.identity.kind == "Widget"
        }
        assert versions == {"example.com/v2"}
        latest = replace(WIDGETS, version="v2")
        patch = {"metadata": {"finalizers": None}}
        await user.cluster.client.patch(
            latest, "default", "held", patch, PatchType.MERGE
        )
        await asyncio.sleep(5)
        assert await user.names() == []


async def test_orphans_whose_references_name_another_version_are_found(
    user: User,
) -> None:
    """A kind is the same in all its versions."""
    await _define(user)
    await _serve_versions(user, "v1", "v2")
    owner = await user.create("owner", resource=WIDGETS)
    by_v1 = {**owner, "apiVersion": "example.com/v1"}
    await user.create("early", by_v1)
    async with collecting(user.cluster) as collector:
        await asyncio.sleep(3)
        node = collector.graph.get(owner["uid"])
        assert node is not None
        assert node.identity.api_version == "example.com/v2"
        with mock.patch.object(collector.graph, "_add_to_owners"):
            await user.create("late", by_v1)
            await asyncio.sleep(1)
        await user.delete("owner", PropagationPolicy.ORPHAN, WIDGETS)
        await asyncio.sleep(3)
        found = [await user.metadata(name) for name in ("early", "late")]
    assert [each and "ownerReferences" in each for each in found] == [False, False]


async def test_orphans_of_a_kind_that_is_unknown_for_a_moment_are_waited_for(
    user: User,
) -> None:
    """They would be collected once it is known again."""
    await _define(user)
    owner = await user.create("owner")
    await user.create("dependent", owner, resource=WIDGETS)
    async with collecting(user.cluster):
        await asyncio.sleep(3)
        _serve_widgets(user, served=False)
        await user.delete("owner", PropagationPolicy.ORPHAN)
        await asyncio.sleep(20)
        _serve_widgets(user, served=True)
        await asyncio.sleep(60)
        metadata = await user.metadata("dependent", WIDGETS)
        assert metadata is not None
        assert "ownerReferences" not in metadata
        assert await user.names() == []


async def test_a_kind_that_cannot_be_listed_holds_up_orphaning_for_a_while(
    user: User,
) -> None:
    """Half a minute; other kinds' dependents are untied then."""
    await _define(user)
    stray = await user.create("stray")
    await user.create("widget", stray, resource=WIDGETS)
    owner = await user.create("owner")
    await user.create("dependent", owner)
    transport = Interfering(user.cluster.transport)
    async with collecting(user.cluster, transport):
        await asyncio.sleep(3)
        transport.broken = "/widgets"
        await user.delete("owner", PropagationPolicy.ORPHAN)
        await asyncio.sleep(20)
        assert await user.metadata("owner") is not None
        await asyncio.sleep(60)
        assert await user.names() == ["dependent", "stray"]


async def test_orphans_that_could_not_be_listed_are_untied_when_they_are_seen(
    user: User,
) -> None:
    """Their owner did not wait for them; they are no garbage all the same (seed 70)."""
    owner = await user.create("owner")
    lost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "gone"}
    await user.create("kept", owner, resource=SECRETS)
    await user.create("lost", lost, owner, resource=SECRETS)
    transport = Interfering(user.cluster.transport, broken="/secrets")
    async with collecting(user.cluster, transport):
        await user.delete("owner", PropagationPolicy.ORPHAN)
        await asyncio.sleep(200)
        assert await user.names() == []
        transport.broken = ""
        await asyncio.sleep(600)
        assert await user.names(SECRETS) == ["kept"]
        kept = await user.metadata("kept", SECRETS)
        assert kept is not None
        assert "ownerReferences" not in kept


async def test_an_owner_of_the_cluster_that_is_gone_is_asked_about_once(
    user: User,
) -> None:
    """Whatever namespaces its dependents are of, though they stay."""
    user.cluster.add_namespace("other")
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "name": "r",
        "uid": "gone",
    }
    for namespace in ("default", "other"):
        await user.create(
            "held", role, namespace=namespace, finalizers=["example.com/hold"]
        )
    reads: list[str] = []

    async def note(request: Request) -> None:
        if request.path.endswith("/clusterroles/r"):
            reads.append(request.path)

    transport = Interfering(user.cluster.transport, before=note)
    async with collecting(user.cluster, transport):
        await asyncio.sleep(60)
        assert len(reads) <= 4


async def test_an_owner_in_the_foreground_does_not_wait_for_what_is_served_no_more(
    user: User,
) -> None:
    """Nobody could ever see it go."""
    await _define(user)
    owner = await user.create("owner")
    await user.create(
        "held", blocking(owner), resource=WIDGETS, finalizers=["example.com/hold"]
    )
    async with collecting(user.cluster):
        await asyncio.sleep(3)
        await user.delete("owner", PropagationPolicy.FOREGROUND)
        await asyncio.sleep(3)
        _serve_widgets(user, served=False)
        await asyncio.sleep(130)
        assert await user.names() == []


async def test_resources_are_waited_for_from_when_they_are_known(user: User) -> None:
    """However long that took."""
    lost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "gone"}
    await user.create("dependent", lost)
    transport = Interfering(user.cluster.transport, broken="/apis")
    async with collecting(user.cluster, transport):
        await asyncio.sleep(50)
        transport.broken = "/secrets"
        await asyncio.sleep(20)
        assert await user.names() == ["dependent"]
        transport.broken = ""
        await asyncio.sleep(60)
        assert await user.names() == []


async def test_that_nothing_is_served_is_not_believed(user: User) -> None:
    """An API server says so that has just started."""
    await user.create("known")
    transport = Interfering(user.cluster.transport)
    async with collecting(user.cluster, transport) as collector:
        await asyncio.sleep(3)
        known = len(collector.graph)
        transport.empty = True
        await asyncio.sleep(300)
        assert len(collector.graph) == known


async def test_what_is_adopted_at_the_last_moment_stays(user: User) -> None:
    """The deletion is refused, since it names the version that was looked at."""
    owner = await user.create("owner")
    lost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "gone"}
    await user.create("dependent", lost)

    async def adopt(request: Request) -> None:
        if request.method == "DELETE" and transport.before is not None:
            transport.before = None
            await _own(user, "dependent", owner)

    transport = Interfering(user.cluster.transport, before=adopt)
    async with collecting(user.cluster, transport):
        await asyncio.sleep(5)
        assert transport.before is None
        assert await user.names() == ["dependent", "owner"]


async def test_a_change_that_is_not_of_owners_does_not_save_an_object(
    user: User,
) -> None:
    """It is deleted at its new version."""
    lost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "gone"}
    await user.create("dependent", lost)

    async def touch(request: Request) -> None:
        if request.method == "DELETE" and transport.before is not None:
            transport.before = None
            await user.cluster.client.patch(
                CONFIG_MAPS, "default", "dependent", {"data": {"k": "v"}}
            )

    transport = Interfering(user.cluster.transport, before=touch)
    async with collecting(user.cluster, transport):
        await asyncio.sleep(1)
        assert await user.names() == []


async def test_the_collector_can_be_switched_off(user: User) -> None:
    """By ``--enable-garbage-collector=false``."""
    await user.create(
        "lost", {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "gone"}
    )
    config = replace(
        make_config(controllers=(COLLECTOR, "ttl")),
        garbage_collector=GarbageCollectorConfig(enabled=False),
    )
    async with user.cluster.manager(config):
        await asyncio.sleep(60)
        assert await user.names() == ["lost"]


async def test_the_graph_can_be_looked_at(user: User) -> None:
    """All of it, or what hangs together with an object; as DOT and as JSON."""
    owner = await user.create("owner")
    dependent = await user.create("dependent", blocking(owner))
    lone = await user.create("lone")
    async with collecting(user.cluster) as collector:
        await asyncio.sleep(3)
        media_type, pieces = collector.drawn({})
        dot = b"".join(pieces)
        json, nothing = (
            b"".join(collector.drawn({"uid": [each["uid"]], "output": ["json"]})[1])
            for each in (owner, lone)
        )
    assert media_type == "text/vnd.graphviz"
    assert dot.decode().startswith("strict digraph full {\n  // Node definitions.")
    assert (
        f"uid={owner['uid']}\\nnamespace=default\\nConfigMap.v1/owner" in dot.decode()
    )
    assert msgspec.json.decode(json)["edges"] == [
        {
            "dependent": dependent["uid"],
            "owner": owner["uid"],
            "blockOwnerDeletion": True,
        }
    ]
    assert msgspec.json.decode(nothing) == {"nodes": [], "edges": []}


# The graph alone


def _object(name: str, *owners: OwnerReference, namespace: str = "n") -> PartialObject:
    return PartialObject(
        metadata=PartialMetadata(
            name=name, namespace=namespace, uid=name, owner_references=owners or None
        )
    )


def _reference(name: str, uid: str = "", kind: str = "ConfigMap") -> OwnerReference:
    return OwnerReference(api_version="v1", kind=kind, name=name, uid=uid or name)


class Bookkeeping:
    """A graph, and what it asked for."""

    def __init__(self) -> None:
        self.to_delete: list[str] = []
        self.misplaced: list[tuple[str, str]] = []
        self.graph = Graph(
            self.to_delete.append, self.to_delete.append, self._misplaced
        )

    def _misplaced(self, node: Node, reference: OwnerReference) -> None:
        self.misplaced.append((node.uid, reference.uid))

    def see(self, *objects: PartialObject) -> None:
        for each in objects:
            self.graph.seen(CONFIG_MAPS, None, each)

    def asked(self) -> list[str]:
        asked, self.to_delete[:] = list(self.to_delete), []
        return asked


async def test_an_owner_that_comes_after_its_dependent_is_no_longer_virtual() -> None:
    """It was asked about meanwhile, once."""
    books = Bookkeeping()
    books.see(_object("child", _reference("owner")))
    owner = books.graph.get("owner")
    assert owner is not None
    assert (owner.is_virtual, books.asked()) == (True, ["owner"])
    books.see(_object("owner"))
    assert (owner.is_virtual, books.asked()) == (False, [])
    assert [node.uid for node in owner.dependents] == ["child"]


async def test_children_that_mean_different_owners_by_one_uid_are_told_apart() -> None:
    """The absence of one says nothing of the other."""
    books = Bookkeeping()
    books.see(
        _object("one", _reference("a", uid="u")),
        _object("two", _reference("b", uid="u", kind="Secret")),
    )
    books.asked()
    books.graph.absent(Identity("v1", "ConfigMap", "n", "a", "u"))
    owner = books.graph.get("u")
    assert owner is not None
    assert owner.identity == Identity("v1", "Secret", "n", "b", "u")
    assert books.asked() == ["one"]
    books.graph.absent(owner.identity)
    assert books.asked() == ["two"]
    books.graph.gone(_object("one"))
    books.graph.gone(_object("two"))
    assert books.graph.get("u") is None


async def test_a_child_of_another_namespace_is_reported_whoever_comes_first() -> None:
    """An owner that was only spoken of, and one that was seen."""
    late, early = Bookkeeping(), Bookkeeping()
    child = _object("child", _reference("owner"), namespace="m")
    late.see(child, _object("owner"))
    early.see(_object("owner"), child)
    assert late.misplaced == early.misplaced == [("child", "owner")]
    assert "child" in late.asked()
    assert early.asked() == ["child"]


async def test_a_kind_whose_objects_own_each_other_can_be_forgotten() -> None:
    """Also if the owner was never seen."""
    books = Bookkeeping()
    books.see(_object("child", _reference("parent")))
    books.graph.forget(CONFIG_MAPS)
    assert books.graph.nodes() == []


async def test_nothing_is_kept_of_objects_that_are_gone() -> None:
    """Neither nodes nor the places of their dependents."""
    books = Bookkeeping()
    objects = [_object("a"), _object("b", _reference("a")), _object("c")]
    books.see(*objects)
    for each in reversed(objects):
        books.graph.gone(each)
    assert (len(books.graph), b"".join(draw(books.graph, (), ("json",))[1])) == (
        0,
        b'{"nodes":[],"edges":[]}',
    )
