"""All objects of a namespace are read together, a few at a time."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import pytest

from controller_manager.client.transport import Request, Response, Stream, Transport
from controller_manager.explain.cause import Explanation, Reference, State
from controller_manager.explain.explainer import explain_all
from tests.clusters import Cluster
from tests.explain.test_objects import add_node, pod, view_of

pytestmark = pytest.mark.looptime


@dataclass
class Slow:
    """Answers each request after a second; refuses those for some resources."""

    inner: Transport
    refused: tuple[str, ...] = ()
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
        await asyncio.sleep(1)
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
    """Forty pods of one node: the node is read once."""
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
    """The namespace is not said to be healthy without a remark."""
    refusing = Slow(cluster.transport, ("/deployments",))
    (found,) = await explain_all(view_of(cluster, refusing), "default")
    assert found == Explanation(
        object=Reference("v1", "Namespace", "", "default"),
        state=State.HEALTHY,
        summary="nothing is wrong, as far as it can be read",
        unread=("deployments.apps in default: may not be read: no",),
    )
