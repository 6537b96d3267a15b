"""The garbage collector deletes some objects, and leaves others alone."""

import asyncio
from dataclasses import replace

import msgspec
import pytest

from controller_manager.api.core.v1 import CONFIG_MAPS, EVENTS
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import PropagationPolicy
from controller_manager.client.rest.transport import Request
from controller_manager.controllers.cluster.garbagecollector import (
    GarbageCollectorOptions,
)
from tests.clusters import make_config
from tests.controllers.cluster.garbagecollector.collecting import (
    COLLECTOR,
    ROLES,
    Interfering,
    User,
    blocking,
    collecting,
)

pytestmark = pytest.mark.looptime


async def test_objects_from_before_the_start_are_collected(user: User) -> None:
    owner = await user.create("owner")
    await user.create("kept", owner)
    await user.create("lost", {**owner, "uid": "gone"})
    async with collecting(user.cluster):
        await asyncio.sleep(3)
        assert await user.names() == ["kept", "owner"]


async def test_an_owner_in_another_namespace_does_not_count(user: User) -> None:
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


async def test_a_cluster_scoped_owner_owns_in_any_namespace(user: User) -> None:
    owner = await user.create("owner", resource=ROLES)
    await user.create("dependent", owner)
    async with collecting(user.cluster):
        await asyncio.sleep(3)
        assert await user.names() == ["dependent"]
        await user.delete("owner", resource=ROLES)
        await asyncio.sleep(3)
        assert await user.names() == []


async def test_a_namespaced_owner_of_a_cluster_scoped_object(user: User) -> None:
    owner = await user.create("owner")
    await user.create("role", {**owner, "uid": "gone"}, resource=ROLES)
    async with collecting(user.cluster):
        await asyncio.sleep(40)
        assert await user.metadata("role", ROLES) is not None


async def test_a_cycle_is_deleted_in_the_foreground(user: User) -> None:
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


async def test_a_dependent_that_no_longer_blocks_releases_its_owner(user: User) -> None:
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


async def test_a_deletion_from_before_the_start_continues(user: User) -> None:
    one, two = await user.create("one"), await user.create("two")
    await user.create("of-one", blocking(one))
    await user.create("of-two", two)
    await user.delete("one", PropagationPolicy.FOREGROUND)
    await user.delete("two", PropagationPolicy.ORPHAN)
    async with collecting(user.cluster):
        await asyncio.sleep(5)
        assert await user.names() == ["of-two"]


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


async def test_a_cluster_scoped_owner_that_is_gone_is_read_once(user: User) -> None:
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


async def test_an_object_that_is_adopted_at_the_last_moment_stays(user: User) -> None:
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


async def test_other_changes_do_not_save_an_object(user: User) -> None:
    """Its second deletion names no version: another change would refuse it again."""
    lost = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "gone"}
    made = await user.create("dependent", lost)
    deletions: list[JSON] = []

    async def touch(request: Request) -> None:
        if request.method == "DELETE":
            deletions.append(
                msgspec.json.decode(request.body or b"{}")["preconditions"]
            )
            data = {"data": {"k": str(len(deletions))}}
            await user.cluster.client.patch(CONFIG_MAPS, "default", "dependent", data)

    transport = Interfering(user.cluster.transport, before=touch)
    async with collecting(user.cluster, transport):
        await asyncio.sleep(1)
        assert await user.names() == []
    assert deletions == [
        {"uid": made["uid"], "resourceVersion": deletions[0]["resourceVersion"]},
        {"uid": made["uid"]},
    ]


async def test_the_collector_can_be_disabled(user: User) -> None:
    """By ``--enable-garbage-collector=false``."""
    await user.create(
        "lost", {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "gone"}
    )
    config = replace(
        make_config(controllers=(COLLECTOR, "ttl")),
        controllers={GarbageCollectorOptions: GarbageCollectorOptions(enabled=False)},
    )
    async with user.cluster.manager(config):
        await asyncio.sleep(60)
        assert await user.names() == ["lost"]


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
