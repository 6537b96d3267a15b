"""A pod gets the zone and the region of its node as labels."""

import pytest

from controller_manager.devcluster.registry.core.pods import KIND, bind
from tests.clusters import Cluster
from tests.devcluster.registry.requests import create

pytestmark = pytest.mark.looptime

ZONE = {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r"}


async def test_a_bound_pod_is_labelled(cluster: Cluster) -> None:
    """Also over labels of its own; no other label is copied."""
    create(cluster, "Node", {"metadata": {"name": "n", "labels": {**ZONE, "x": "y"}}})
    own = {"app": "web", "topology.kubernetes.io/zone": "mine"}
    create(cluster, "Pod", {"metadata": {"name": "p", "labels": own}})
    bind(cluster.server.objects, KIND, "default", "p", "n")
    stored = cluster.server.objects.find(KIND, "default", "p").obj
    assert stored["metadata"]["labels"] == {"app": "web", **ZONE}


async def test_a_pod_that_is_created_on_a_node_is_labelled(cluster: Cluster) -> None:
    """On an unknown node, the pod stays unchanged."""
    create(cluster, "Node", {"metadata": {"name": "n", "labels": ZONE}})
    pod = create(cluster, "Pod", {"spec": {"nodeName": "n"}})
    assert pod["metadata"]["labels"] == ZONE
    assert pod["metadata"]["name"] == "a"
    assert "creationTimestamp" in pod["metadata"]
    other = {"metadata": {"name": "b"}, "spec": {"nodeName": "other"}}
    assert "labels" not in create(cluster, "Pod", other)["metadata"]
