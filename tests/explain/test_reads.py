"""Objects are read once, a few at a time, and those that were not read are named."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from controller_manager.api.core.v1 import PODS
from controller_manager.client.rest import transport
from controller_manager.devcluster.apiserver.security import User
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.explain.cause import Explanation, Item, Reference, State
from controller_manager.explain.explainer import explain_all, explain_target
from controller_manager.explain.report import as_text
from controller_manager.explain.target import parse_target
from controller_manager.explain.view import Unread
from tests.clusters import Cluster
from tests.explain.given import Given, built, view_of
from tests.streams import PassedTransport

pytestmark = pytest.mark.looptime


def pod(state: Any = None, *, ready: bool = False) -> dict[str, Any]:
    container = {"name": "app", "image": "a", "imageID": "", "restartCount": 0}
    status: dict[str, Any] = {"phase": "Running"}
    if state:
        status["containerStatuses"] = [{**container, "ready": ready, "state": state}]
        status["conditions"] = [{"type": "Ready", "status": str(ready)}]
    containers = [{"name": "app", "image": "a"}]
    return {"spec": {"nodeName": "node-0", "containers": containers}, "status": status}


def add_node(cluster: Cluster, name: str = "node-0") -> None:
    ready = {"type": "Ready", "status": "True"}
    cluster.add("Node", name, status={"conditions": [ready]})


@dataclass
class Slow(PassedTransport):
    """Answers each request after some seconds; refuses some, and hangs at some."""

    refused: tuple[str, ...] = ()
    seconds: float = 1
    hangs: str = "nothing"
    seen: Counter[str] = field(default_factory=Counter)
    at_once: int = 0
    most: int = 0

    async def request(self, request: transport.Request) -> transport.Response:
        self.seen[f"{request.path} {request.query}"] += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(self.seconds if self.hangs not in request.path else 1e6)
        self.at_once -= 1
        if request.path.endswith(self.refused):
            return transport.Response(403, {}, b'{"kind":"Status","message":"no"}')
        return await self.inner.request(request)


async def test_objects_are_explained_eight_at_a_time(cluster: Cluster) -> None:
    add_node(cluster)
    for number in range(40):
        cluster.add("Pod", f"web-{number}", **pod())
    slow = Slow(cluster.transport)
    began = asyncio.get_running_loop().time()
    found = await explain_all(view_of(cluster, slow), "default")
    seconds = asyncio.get_running_loop().time() - began
    assert [each.object.name for each in found] == sorted(
        f"web-{number}" for number in range(40)
    )
    assert slow.most == 8
    assert max(slow.seen.values()) == 1
    assert seconds < slow.seen.total() / 2


async def test_a_kind_that_cannot_be_read_is_named(cluster: Cluster) -> None:
    refusing = Slow(cluster.transport, ("/deployments",))
    (found,) = await explain_all(view_of(cluster, refusing), "default")
    assert found == Explanation(
        object=Reference("v1", "Namespace", "", "default"),
        state=State.HEALTHY,
        summary="nothing is wrong, as far as it can be read",
        unread=("deployments.apps in default: may not be read: no",),
    )


def _failing_pods(cluster: Cluster, count: int) -> None:
    waiting = {"reason": "CreateContainerConfigError", "message": "no map"}
    for number in range(count):
        given = pod({"waiting": waiting})
        given["spec"]["nodeName"] = f"node-{number}"
        cluster.add("Pod", f"web-{number:02}", **given)
        add_node(cluster, f"node-{number}")


async def test_the_rest_is_named_when_the_time_is_over(cluster: Cluster) -> None:
    """A server takes 29 s for each of many reads; the user does not wait for days."""
    _failing_pods(cluster, 30)
    slow = Slow(cluster.transport, seconds=29)
    seconds = 29 * 16 + 10  # for the namespace, 13 lists, and the nodes of 16 pods
    view = view_of(cluster, slow, request_seconds=60, seconds=seconds)
    began = asyncio.get_running_loop().time()
    found = await explain_all(view, "default")
    assert asyncio.get_running_loop().time() - began == pytest.approx(seconds)
    *pods, rest = found
    names = [f"web-{number:02}" for number in range(30)]
    assert [(each.object.name, each.causes[0].code) for each in pods] == [
        (each, "ContainerConfig") for each in names[:24]
    ]
    assert [each.timed_out for each in pods] == [False] * 16 + [True] * 8
    left = names[24:]
    assert rest == Explanation(
        object=Reference("v1", "Namespace", "", "default"),
        state=State.HEALTHY,
        summary="nothing is wrong, as far as it can be read; "
        f"{len(left)} objects not looked at in time",
        timed_out=True,
        not_looked_at=tuple(Reference("v1", "Pod", "default", each) for each in left),
    )


async def test_kinds_that_were_not_listed_in_time_are_named(cluster: Cluster) -> None:
    """No object of them is known, so none can be named."""
    slow = Slow(cluster.transport, seconds=29)
    view = view_of(cluster, slow, request_seconds=60, seconds=29 * 12 + 10)
    (found,) = await explain_all(view, "default")
    over = "in default: not read, because the time was over"
    assert found == Explanation(
        object=Reference("v1", "Namespace", "", "default"),
        state=State.HEALTHY,
        summary="nothing is wrong, as far as it can be read",
        unread=(f"replicationcontrollers {over}", f"pods {over}"),
        timed_out=True,
    )


async def test_an_object_without_an_answer_is_unread(cluster: Cluster) -> None:
    """No request is sent after the last time, and a slow one is given up."""
    slow = Slow(cluster.transport, seconds=29)
    view = view_of(cluster, slow, request_seconds=60, seconds=20)
    with pytest.raises(Unread, match="not read, because the time was over"):
        await explain_target(view, parse_target(("pod/web",)), "default")
    assert asyncio.get_running_loop().time() == pytest.approx(20)
    with pytest.raises(Unread, match="the resources of the API server: not read"):
        await explain_target(view.beside(), parse_target(("widget/web",)), "default")
    assert slow.seen.total() == 1


async def test_the_text_names_the_first_left_out(cluster: Cluster) -> None:
    pods = tuple(Reference("v1", "Pod", "shop", f"web-{each}") for each in range(8))
    claim = Reference("v1", "PersistentVolumeClaim", "shop", "data")
    found = Explanation(
        object=Reference("v1", "Namespace", "", "shop"),
        state=State.HEALTHY,
        summary="x",
        timed_out=True,
        not_looked_at=(claim, *pods),
    )
    assert as_text([found], cluster.clock.now(), 80) == (
        "Namespace shop is healthy: x\n\n"
        "Not looked at, because the time was over:\n"
        "  - PersistentVolumeClaim: data\n"
        "  - Pod: web-0, web-1, web-2, web-3, web-4 and 3 more\n"
    )


async def test_what_healthy_objects_lack_is_named(cluster: Cluster) -> None:
    """A user who may not read nodes is not told that nothing is wrong."""
    given = pod({"running": {"startedAt": "2026-01-01T00:00:00Z"}}, ready=True)
    cluster.add("Pod", "web", **given)
    refusing = Slow(cluster.transport, ("/node-0",))
    (found,) = await explain_all(view_of(cluster, refusing), "default")
    assert found == Explanation(
        object=Reference("v1", "Namespace", "", "default"),
        state=State.HEALTHY,
        summary="nothing is wrong, as far as it can be read",
        unread=("nodes 'node-0': may not be read: no",),
    )


async def test_the_text_has_the_first_unread_objects(cluster: Cluster) -> None:
    unread = tuple(f"nodes 'node-{each}': no answer in time" for each in range(23))
    found = Explanation(
        object=Reference("v1", "Namespace", "", "shop"),
        state=State.HEALTHY,
        summary="x",
        unread=unread,
    )
    lines = as_text([found], cluster.clock.now(), 80).splitlines()
    assert lines[-2:] == ["  - nodes 'node-19': no answer in time", "  - and 3 more"]


async def test_objects_that_may_not_be_read_are_named() -> None:
    cluster = Cluster(rbac=True)
    cluster.server.tokens.add("reader", User("reader"))
    api, group = "rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
    cluster.add("ClusterRole", "reader", api, rules=[rule])
    cluster.add(
        "ClusterRoleBinding",
        "reader",
        api,
        roleRef={"apiGroup": group, "kind": "ClusterRole", "name": "reader"},
        subjects=[{"apiGroup": group, "kind": "User", "name": "reader"}],
    )
    cluster.add("Pod", "web", **pod())
    view = view_of(cluster, InMemoryTransport(cluster.server, "reader"))
    found = await explain_target(view, parse_target(("pod/web",)), "default")
    assert [each.partition(":")[0] for each in found.unread] == [
        "nodes 'node-0'",
        "events in default",
    ]
    assert [each.code for each in found.causes] == ["Starting"]


async def test_each_object_is_read_once(cluster: Cluster) -> None:
    """So two causes never contradict each other."""
    add_node(cluster)
    cluster.add("Pod", "web", **pod())
    slow = Slow(cluster.transport)
    await explain_target(view_of(cluster, slow), parse_target(("po/web",)), "default")
    assert sorted(slow.seen.values()) == [1, 1, 1]


async def test_a_lost_answer_ends_with_its_timeout(cluster: Cluster) -> None:
    cluster.add("Pod", "web", **pod())
    target = parse_target(("po/web",))
    view = view_of(cluster, Slow(cluster.transport, hangs="/nodes/"))
    found = await explain_target(view, target, "default")
    assert found.unread == ("nodes 'node-0': no answer in time",)
    never = view_of(cluster, Slow(cluster.transport, hangs="/pods/"))
    with pytest.raises(Unread, match="no answer in time"):
        await explain_target(never, target, "default")


async def test_a_workload_of_a_custom_resource_is_among_all(cluster: Cluster) -> None:
    lost = {"name": "data", "owner": "Widget/a", "spec": {"volumeName": "disk"}}
    claim = built("persistentvolumeclaims", {**lost, "status": {"phase": "Lost"}})
    space = built("namespaces", {"name": "shop"})
    server = Given(persistentvolumeclaims=[claim], namespaces=[space])
    found = await explain_all(view_of(cluster, server), "shop")
    assert [str(each.object) for each in found if each.state is State.STUCK] == [
        "PersistentVolumeClaim shop/data"
    ]


def test_an_object_with_null_in_an_unusual_place_is_explained() -> None:
    """It is read as Go reads it, as the controllers read it."""
    given = {"metadata": {"name": "a", "labels": {"b": None}}, "spec": None}
    found = Item(PODS, given).typed(PODS.type)
    assert (found.metadata.labels, found.spec) == ({"b": ""}, PODS.type().spec)
