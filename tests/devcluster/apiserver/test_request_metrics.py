"""The metrics of requests and objects."""

import re

import pytest

from controller_manager.client.rest.transport import Request
from tests.clusters import Cluster
from tests.devcluster.requests import call, create_pod

pytestmark = pytest.mark.looptime

PODS = "/api/v1/namespaces/default/pods"


async def scraped(cluster: Cluster, name: str) -> dict[str, float]:
    """Return the values of a metric by its labels, without zeros and empty labels."""
    answer = await call(cluster, "GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = {}
    for line in answer.body.decode().splitlines():
        if line.startswith(f"{name}{{"):
            labels, value = re.sub(r'(?:^|,)\w+=""', "", line).rsplit(" ", 1)
            found[labels.removeprefix(name).strip("{},")] = float(value)
    return {labels: value for labels, value in found.items() if value}


async def test_requests_are_counted_by_their_attributes(cluster: Cluster) -> None:
    for method, path, query, code in (
        ("GET", PODS, (), 200),
        ("GET", PODS, (("watch", "1"),), 200),
        ("GET", "/api/v1/pods", (), 200),
        ("POST", PODS, (("dryRun", "All"),), 201),
        ("PUT", f"{PODS}/a/status", (), 409),
        ("PUT", f"{PODS}/a/status", (), 409),
        ("DELETE", "/apis/apps/v1/namespaces/default/deployments/web", (), 200),
        ("GET", "/version", (), 200),
        ("GET", "/api/v1/hostile-1", (), 404),
        ("GET", "/api/v1/hostile-2", (), 404),
        ("HOSTILE", PODS.replace("pods", "hostile"), (), 405),
    ):
        cluster.server.metrics.count(Request(method, path, query), code)
    server = 'component="apiserver"'
    pods = f'{server},resource="pods"'
    assert await scraped(cluster, "apiserver_request_total") == {
        f'code="200",{pods},scope="namespace",verb="LIST",version="v1"': 1,
        f'code="200",{pods},scope="namespace",verb="WATCH",version="v1"': 1,
        f'code="200",{pods},scope="cluster",verb="LIST",version="v1"': 1,
        f'code="201",{server},dry_run="All",resource="pods",scope="namespace",'
        'verb="POST",version="v1"': 1,
        f'code="409",{pods},scope="resource",subresource="status",verb="PUT",'
        'version="v1"': 2,
        f'code="200",{server},group="apps",resource="deployments",scope="resource",'
        'verb="DELETE",version="v1"': 1,
        f'code="200",{server},verb="GET"': 1,
        f'code="404",{server},verb="LIST"': 2,
        f'code="405",{server},verb="other"': 1,
    }


async def test_objects_are_counted(cluster: Cluster) -> None:
    await create_pod(cluster, "a")
    await create_pod(cluster, "b")
    objects = await scraped(cluster, "apiserver_storage_objects")
    assert objects['resource="pods"'] == 2
    assert 'resource="deployments.apps"' not in objects
