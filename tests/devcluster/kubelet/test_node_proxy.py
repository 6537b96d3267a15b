"""The proxy of a node connects to its kubelet."""

import pytest

from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import CORE
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

PROXY = f"{CORE}/nodes/node-0/proxy"


@pytest.mark.parametrize(
    ("method", "path", "status", "text"),
    [
        ("GET", f"{PROXY}/healthz", 200, "ok"),
        ("GET", f"{PROXY}/metrics", 404, "404 page not found\n"),
        ("GET", f"{CORE}/nodes/node-0:10250/proxy/healthz", 200, "ok"),
        ("GET", f"{CORE}/nodes/https:node-0:/proxy/healthz", 200, "ok"),
        ("DELETE", f"{PROXY}/pods", 405, "405: Method Not Allowed"),
        ("GET", f"{PROXY}/nothing", 404, "404 page not found\n"),
        ("GET", PROXY, 301, ""),
    ],
)
async def test_a_kubelet_answers(
    cluster: Cluster, method: str, path: str, status: int, text: str
) -> None:
    """Its port may be named; a path that it does not have is not found."""
    async with cluster.nodes(count=1):
        answer = await call(cluster, method, path)
        assert (answer.status, answer.body.decode()) == (status, text)
        if status == 301:
            assert answer.headers["location"] == f"{PROXY}/"
