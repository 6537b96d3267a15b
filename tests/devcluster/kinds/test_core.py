"""What is special about kinds of the core group."""

import msgspec
import pytest

from controller_manager.api.core.v1 import PODS
from controller_manager.client.errors import Forbidden
from controller_manager.devcluster.kinds.core.node import KIND as NODE
from controller_manager.devcluster.kinds.core.persistentvolumeclaim import (
    KIND as CLAIM,
)
from controller_manager.devcluster.kinds.core.resourcequota import KIND as QUOTA
from tests.clusters import Cluster
from tests.controllers.builders import JSON, template


def test_a_node_that_somebody_creates_has_every_field() -> None:
    """Empty ones, as the API server writes them."""
    node: JSON = {"status": {"nodeInfo": {"kubeletVersion": "v1.30.0"}}}
    NODE.strategy.apply_defaults(node)
    assert node == {
        "spec": {},
        "status": {
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": {
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
                "kernelVersion": "",
                "osImage": "",
                "containerRuntimeVersion": "",
                "kubeletVersion": "v1.30.0",
                "kubeProxyVersion": "",
                "operatingSystem": "",
                "architecture": "",
            },
        },
    }


@pytest.mark.parametrize(
    "given", [[], ["example.com/hold"], ["kubernetes.io/pvc-protection"]]
)
@pytest.mark.looptime
async def test_a_new_claim_is_protected(cluster: Cluster, given: list[str]) -> None:
    """Once, behind its other finalizers."""
    resources = {"requests": {"storage": "1Gi"}}
    claim = {
        "metadata": {"name": "data", "finalizers": given},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources},
    }
    stored = cluster.server.objects.create(CLAIM, "default", claim).obj
    assert stored["metadata"]["finalizers"] == [
        *(each for each in given if each.startswith("example.com")),
        "kubernetes.io/pvc-protection",
    ]


@pytest.mark.looptime
async def test_a_quota_limits_cpu_as_well_as_pods(cluster: Cluster) -> None:
    """And its status counts what there is."""
    hard = {"pods": "5", "requests.cpu": "250m"}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": hard}}
    cluster.server.objects.create(QUOTA, "default", quota)
    pod = {"metadata": {"generateName": "p-"}, "spec": template()["spec"]}
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    body = msgspec.json.encode(pod)
    for _ in range(2):
        await cluster.client.create_json(PODS, "default", body)
    with pytest.raises(Forbidden) as caught:
        await cluster.client.create_json(PODS, "default", body)
    assert str(caught.value).endswith(
        "is forbidden: exceeded quota: q, requested: requests.cpu=100m, "
        "used: requests.cpu=200m, limited: requests.cpu=250m"
    )
    stored = cluster.server.objects.find(QUOTA, "default", "q").obj
    assert stored["status"]["used"] == {"pods": "2", "requests.cpu": "200m"}
