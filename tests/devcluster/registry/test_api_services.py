"""The servers of group versions."""

import json

import pytest

from tests.clusters import Cluster
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

PATH = "/apis/apiregistration.k8s.io/v1/apiservices"


async def test_built_in_group_versions_are_registered(cluster: Cluster) -> None:
    """All but those of the aggregator itself and of the metrics."""
    listed = json.loads((await call(cluster, "GET", PATH)).body)["items"]
    served = {
        f"{version}.{group}"
        for group, version in cluster.server.catalogue.group_versions()
        if group != "apiregistration.k8s.io" and not group.endswith("metrics.k8s.io")
    }
    assert {each["metadata"]["name"] for each in listed} == served
