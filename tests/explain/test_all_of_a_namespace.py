"""All objects of a namespace are read together, a few at a time."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import pytest

from controller_manager.client.rest.transport import (
    Request,
    Response,
    Stream,
    Transport,
)
from controller_manager.explain.cause import Explanation, Reference, State
from controller_manager.explain.explainer import explain_all, explain_target
from controller_manager.explain.report import as_text
from controller_manager.explain.target import parse_target
from controller_manager.explain.view import Unread
from tests.clusters import Cluster
from tests.explain.test_objects import add_node, pod, view_of

pytestmark = pytest.mark.looptime


@dataclass
class Slow:
    """Answers each request after some seconds; refuses those for some resources."""

    inner: Transport
    refused: tuple[str, ...] = ()
    seconds: float = 1
    seen: Counter[str] = field(default_factory=Counter)
    at_once: int = 0
    most: int = 0

    @property
    def host(self) -> str:
        return self.inner.host

    async def request(self, request: Request) -> Response:
        self.seen[f"{request.path} {request.query}"] += 1
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await asyncio.sleep(self.seconds)
        self.at_once -= 1
        if request.path.endswith(self.refused):
            return Response(403, {}, b'{"kind":"Status","message":"no"}')
        return await self.inner.request(request)

    async def stream(self, request: Request) -> Stream:
        return await self.inner.stream(request)

    async def close(self) -> None:
        await self.inner.close()


async def test_objects_are_explained_eight_at_a_time_and_share_answers(
    cluster: Cluster,
) -> None:
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
    """Add pods that wait for a config map, one on each node."""
    waiting = {"reason": "CreateContainerConfigError", "message": "no map"}
    for number in range(count):
        status = {
            "name": "app",
            "ready": False,
            "image": "a",
            "imageID": "",
            "restartCount": 0,
            "state": {"waiting": waiting},
        }
        given = pod(containerStatuses=[status])
        given["spec"]["nodeName"] = f"node-{number}"
        cluster.add("Pod", f"web-{number:02}", **given)
        cluster.add(
            "Node",
            f"node-{number}",
            status={"conditions": [{"type": "Ready", "status": "True"}]},
        )


async def test_the_answers_within_the_time_are_kept_and_the_rest_is_named(
    cluster: Cluster,
) -> None:
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


async def test_an_object_that_is_not_answered_in_time_is_unread(
    cluster: Cluster,
) -> None:
    """No request is sent after the last time, and a slow one is given up."""
    slow = Slow(cluster.transport, seconds=29)
    view = view_of(cluster, slow, request_seconds=60, seconds=20)
    with pytest.raises(Unread, match="not read, because the time was over"):
        await explain_target(view, parse_target(("pod/web",)), "default")
    assert asyncio.get_running_loop().time() == pytest.approx(20)
    with pytest.raises(Unread, match="the resources of the API server: not read"):
        await explain_target(view.beside(), parse_target(("widget/web",)), "default")
    assert slow.seen.total() == 1


async def test_the_text_names_the_first_objects_that_were_left_out(
    cluster: Cluster,
) -> None:
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
    state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    ready = {"type": "Ready", "status": "True"}
    status = {
        "name": "app",
        "ready": True,
        "image": "a",
        "imageID": "",
        "restartCount": 0,
        "state": state,
    }
    cluster.add("Pod", "web", **pod(containerStatuses=[status], conditions=[ready]))
    refusing = Slow(cluster.transport, ("/node-0",))
    (found,) = await explain_all(view_of(cluster, refusing), "default")
    assert found == Explanation(
        object=Reference("v1", "Namespace", "", "default"),
        state=State.HEALTHY,
        summary="nothing is wrong, as far as it can be read",
        unread=("nodes 'node-0': may not be read: no",),
    )


async def test_the_text_has_only_the_first_lines_about_unread_objects(
    cluster: Cluster,
) -> None:
    unread = tuple(f"nodes 'node-{each}': no answer in time" for each in range(23))
    found = Explanation(
        object=Reference("v1", "Namespace", "", "shop"),
        state=State.HEALTHY,
        summary="x",
        unread=unread,
    )
    lines = as_text([found], cluster.clock.now(), 80).splitlines()
    assert lines[-2:] == ["  - nodes 'node-19': no answer in time", "  - and 3 more"]
