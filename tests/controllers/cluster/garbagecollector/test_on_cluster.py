"""The garbage collector deletes some objects, and leaves others alone."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import AnyResource
from controller_manager.client.rest.client import PropagationPolicy
from controller_manager.controllers.cluster.garbagecollector import (
    GarbageCollectorOptions,
)
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers.cluster.garbagecollector.collecting import (
    COLLECTOR,
    ROLES,
    Interfering,
    User,
    blocking,
    collecting,
    define,
    serve_widgets,
)
from tests.controllers.cluster.garbagecollector.test_orphans import (
    store_claim,
    store_set,
)
from tests.controllers.custom_resources import DEFINITIONS
from tests.controllers.hands import Hands
from tests.controllers.scenarios import Scenario, scenarios

pytestmark = pytest.mark.looptime


def config(*, enabled: bool = True) -> Config:
    made = make_config(controllers=(COLLECTOR, "ttl"))
    options = GarbageCollectorOptions(enabled=enabled)
    return replace(made, controllers={GarbageCollectorOptions: options})


class Garbage(Hands):
    """A cluster in which a user owns and deletes objects, by default config maps."""

    def create(
        self,
        name: str,
        /,
        *owners: JSON,
        resource: str = "configmaps",
        at: str = "",
        blocks: bool = False,
        finalizer: str = "",
        **owner: Any,
    ) -> JSON:
        """Create an object with these owners; return a reference to it."""
        every = [*owners, *([owner] if owner else [])]
        references = [blocking(each) if blocks else each for each in every]
        finalizers = [finalizer] if finalizer else []
        metadata = {"ownerReferences": references, "finalizers": finalizers}
        made = self.put(resource, name, at, metadata=metadata)
        kind, _ = self._kind(resource, at)
        uid = made["metadata"]["uid"]
        version = {"apiVersion": kind.api_version, "kind": kind.kind}
        return {**version, "name": name, "uid": uid}

    def reference_to_role(self, uid: str) -> JSON:
        version = {"apiVersion": ROLES.api_version, "kind": ROLES.kind}
        return {**version, "name": "r", "uid": uid}

    def own(self, name: str, /, *, blocks: bool = False, **owner: Any) -> None:
        reference = blocking(owner) if blocks else owner
        self.edit("configmaps", name, metadata={"ownerReferences": [reference]})

    async def delete(
        self, name: str, policy: str = "Background", resource: str = "configmaps"
    ) -> None:
        kind, _ = self._kind(resource, "")
        found: AnyResource = replace(
            ROLES,
            group=kind.group,
            version=kind.version,
            plural=kind.plural,
            kind=kind.kind,
            namespaced=kind.namespaced,
        )
        await User(self).delete(name, PropagationPolicy(policy), found)

    async def define(self) -> None:
        await define(User(self))

    async def undefine(self) -> None:
        await self.client.delete(DEFINITIONS, "", "widgets.example.com")

    def serve_widgets(self, *, served: bool) -> None:
        serve_widgets(User(self), served=served)

    async def store_set(self) -> JSON:
        return await store_set(User(self))

    async def store_claim(self, **owner: str) -> None:
        await store_claim(User(self), owner)

    def is_there(self, name: str, resource: str = "configmaps") -> bool:
        return name in self.names(resource)

    def owners(self, name: str, resource: str = "configmaps") -> list[JSON] | None:
        metadata = self.stored(resource, name)["metadata"]
        return metadata.get("ownerReferences")  # type: ignore[no-any-return]


@scenarios("cluster/garbagecollector")
async def test_garbage_is_collected(scenario: Scenario) -> None:
    await scenario.play(Garbage, config)


HOSTILE = (
    ("v1", "Namespace", "kube-system/services/https:admin-ui:443/proxy/api/restart"),
    ("v1", "ConfigMap", "../../../../api/v1/nodes"),
    ("v1", "Secret", "a%2fb"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", ".."),
)


async def test_an_owner_with_a_hostile_name_is_never_requested(user: User) -> None:
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


async def test_the_graph_has_a_debug_page(user: User) -> None:
    owner = await user.create("owner")
    dependent = await user.create("dependent", blocking(owner))
    lone = await user.create("lone")
    async with collecting(user.cluster) as collector:
        await asyncio.sleep(3)
        media_type, pieces = collector.draw_graph({})
        dot = b"".join(pieces)
        json, nothing = (
            b"".join(
                collector.draw_graph({"uid": [each["uid"]], "output": ["json"]})[1]
            )
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
