"""Probes, and the paths that a server says it has."""

import json

import pytest

from tests.clusters import Cluster
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime


async def test_the_root_lists_paths_that_exist(cluster: Cluster) -> None:
    root = json.loads((await call(cluster, "GET", "/")).body)
    assert {"/api/v1", "/apis/apps", "/apis/apps/v1", "/livez/ping"} <= set(
        root["paths"]
    )
    for path in root["paths"]:
        assert (await call(cluster, "GET", path)).status == 200, path
