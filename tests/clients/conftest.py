"""The cluster that all clients share."""

from collections.abc import Iterator

import pytest

from controller_manager.devcluster.testing import ClusterSettings, DevelopmentCluster
from tests.clients.scenarios import DEFINITION
from tests.devcluster.testing.calls import Caller

SETTINGS = ClusterSettings(
    nodes=2,
    controllers=(
        "deployment-controller",
        "replicaset-controller",
        "job-controller",
        "namespace-controller",
        "garbage-collector-controller",
        "endpointslice-controller",
    ),
    pod_start_delay=0.05,
    grace_scale=0,
)


@pytest.fixture(scope="package")
def clients_cluster() -> Iterator[DevelopmentCluster]:
    """Run a cluster with a custom resource; its first versions are out of history.

    It runs in a thread, so it must not be there while the tests of others replace
    parts of the product.
    """
    with DevelopmentCluster(SETTINGS) as cluster:
        caller = Caller(cluster.kubeconfig)
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        assert caller.send("POST", path, DEFINITION).status == 201
        with cluster.namespace("history") as namespace:
            maps = f"/api/v1/namespaces/{namespace}/configmaps"
            assert caller.add("ConfigMap", maps, "a").status == 201
        cluster.faults.expire_watches()
        yield cluster
