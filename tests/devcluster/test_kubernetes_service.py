"""The service ``kubernetes`` says where the API server listens."""

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.controlplane import add_kubernetes_service
from tests.clusters import Cluster

pytestmark = pytest.mark.looptime


def stored(cluster: Cluster, resource: str, name: str = "kubernetes") -> JSON:
    namespace = "" if resource.startswith("ipaddresses") else "default"
    found = cluster.server.storage.collection(resource).get((namespace, name))
    assert found is not None
    return found.obj


@pytest.mark.parametrize(
    ("ranges", "address"),
    [("10.96.0.0/12", "10.96.0.1"), ("fd00::/112,10.0.0.0/16", "fd00::1")],
)
async def test_it_has_the_first_address_of_the_first_range(
    ranges: str, address: str
) -> None:
    cluster = Cluster(service_cluster_ip_range=ranges)
    add_kubernetes_service(cluster.server.objects, "127.0.0.1", 6443)
    service = stored(cluster, "services")
    assert service["spec"]["clusterIPs"] == [address]
    assert service["spec"]["ipFamilyPolicy"] == "SingleStack"
    assert service["metadata"]["labels"] == {
        "component": "apiserver",
        "provider": "kubernetes",
    }
    parent = stored(cluster, "ipaddresses.networking.k8s.io", address)["spec"]
    assert parent["parentRef"]["name"] == "kubernetes"


async def test_its_endpoints_are_those_of_the_server(cluster: Cluster) -> None:
    """In a slice as well, so that nothing mirrors them."""
    add_kubernetes_service(cluster.server.objects, "127.0.0.1", 6443)
    ports = [{"name": "https", "port": 6443, "protocol": "TCP"}]
    endpoints = stored(cluster, "endpoints")
    assert endpoints["subsets"] == [
        {"addresses": [{"ip": "127.0.0.1"}], "ports": ports}
    ]
    assert endpoints["metadata"]["labels"] == {
        "endpointslice.kubernetes.io/skip-mirror": "true"
    }
    found = stored(cluster, "endpointslices.discovery.k8s.io")
    assert found["metadata"]["labels"] == {"kubernetes.io/service-name": "kubernetes"}
    assert (found["addressType"], found["ports"]) == ("IPv4", ports)
    assert found["endpoints"] == [
        {"addresses": ["127.0.0.1"], "conditions": {"ready": True}}
    ]
