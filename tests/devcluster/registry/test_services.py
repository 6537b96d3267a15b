"""Services get families, addresses and node ports, and give them back."""

from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import Deletion
from controller_manager.devcluster.registry.networking.addresses import RangeError
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.devcluster.registry.requests import causes, create, update
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime

DUAL = "10.0.0.0/16,fd00:10::/108"
PORT = {"port": 80, "protocol": "TCP", "targetPort": 80}


def service(cluster: Cluster, name: str = "web", **spec: Any) -> JSON:
    return create(cluster, "Service", {"metadata": {"name": name}, "spec": spec})


def delete(cluster: Cluster, name: str) -> None:
    kind = cluster.server.catalogue.find("", "v1", "services")
    assert kind is not None
    cluster.server.objects.delete(kind, "default", name, Deletion())


def names(cluster: Cluster, resource: str) -> list[str]:
    collection = cluster.server.storage.collection(resource)
    return sorted(each.obj["metadata"]["name"] for each in collection)


def addresses(cluster: Cluster) -> list[str]:
    return names(cluster, "ipaddresses.networking.k8s.io")


def refused(cluster: Cluster, **spec: Any) -> list[str]:
    with pytest.raises(Refusal) as raised:
        service(cluster, **spec)
    return causes(raised.value)


async def test_a_service_has_defaults_and_an_address(cluster: Cluster) -> None:
    assert service(cluster)["spec"] == {
        "clusterIP": "10.96.1.1",
        "clusterIPs": ["10.96.1.1"],
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "ports": [PORT],
        "sessionAffinity": "None",
        "type": "ClusterIP",
    }
    assert service(cluster, "api")["spec"]["clusterIP"] == "10.96.1.2"


async def test_an_address_is_an_object_as_long_as_the_service_is(
    cluster: Cluster,
) -> None:
    """Afterwards it is free, but others come first."""
    address = service(cluster)["spec"]["clusterIP"]
    stored = cluster.server.storage.collection("ipaddresses.networking.k8s.io").get(
        ("", address)
    )
    assert stored is not None
    assert stored.obj["metadata"]["labels"] == {
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    parent = {"resource": "services", "namespace": "default", "name": "web"}
    assert stored.obj["spec"] == {"parentRef": parent}
    delete(cluster, "web")
    assert addresses(cluster) == []
    assert service(cluster)["spec"]["clusterIP"] != address
    chosen = service(cluster, "other", clusterIP=address)
    assert chosen["spec"]["clusterIPs"] == [address]


async def test_an_address_in_use_comes_back_when_it_is_deleted(
    cluster: Cluster,
) -> None:
    """So that no other service gets it."""
    address = service(cluster)["spec"]["clusterIP"]
    catalogue = cluster.server.catalogue
    kind = catalogue.find("networking.k8s.io", "v1", "ipaddresses")
    assert kind is not None
    before = cluster.server.objects.find(kind, "", address).obj
    cluster.server.objects.delete(kind, "", address, Deletion())
    after = cluster.server.objects.find(kind, "", address).obj
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["metadata"]["labels"] == before["metadata"]["labels"]
    assert after["spec"] == before["spec"]


@rows("address", "why")
async def test_an_address_that_is_not_free_is_refused(
    cluster: Cluster, address: str, why: str
) -> None:
    service(cluster, "first")
    assert refused(cluster, clusterIP=address) == [
        f'spec.clusterIPs: Invalid value: ["{address}"]: {why}'
    ]


async def test_a_full_range_is_an_error() -> None:
    cluster = Cluster(service_cluster_ip_range="10.0.0.0/29")
    given = [service(cluster, f"s{number}")["spec"]["clusterIP"] for number in range(6)]
    assert sorted(given) == [f"10.0.0.{number}" for number in range(1, 7)]
    with pytest.raises(Refusal) as raised:
        service(cluster)
    assert raised.value.code == 500
    message = "Internal error occurred: failed to allocate a serviceIP: range is full"
    assert str(raised.value) == message


@pytest.mark.parametrize("ranges", ["", "10.0.0.0", "10.0.0.0/16,10.1.0.0/16"])
async def test_invalid_ranges_are_refused(ranges: str) -> None:
    with pytest.raises(RangeError, match=f"^--service-cluster-ip-range {ranges}: "):
        Cluster(service_cluster_ip_range=ranges)


def families(obj: JSON) -> tuple[str, list[str], int]:
    spec = obj["spec"]
    return spec["ipFamilyPolicy"], spec["ipFamilies"], len(spec.get("clusterIPs", ()))


@rows("spec", "expected")
async def test_families_follow_from_the_given_fields(
    spec: JSON, expected: list[Any]
) -> None:
    cluster = Cluster(service_cluster_ip_range=DUAL)
    assert [*families(service(cluster, **spec))] == expected


@rows("spec", "why")
async def test_two_families_need_a_policy(spec: JSON, why: str) -> None:
    cluster = Cluster(service_cluster_ip_range=DUAL)
    assert refused(cluster, **spec) == [
        f'spec.ipFamilyPolicy: Invalid value: "SingleStack": {why}'
    ]


async def test_a_second_family_is_given_up_by_the_policy() -> None:
    """By nothing else."""
    cluster = Cluster(service_cluster_ip_range=DUAL)
    obj = service(cluster, ipFamilyPolicy="RequireDualStack")
    with pytest.raises(Refusal) as raised:
        update(cluster, obj, {"spec": {"ipFamilies": ["IPv4"]}})
    assert causes(raised.value) == [
        (
            'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": must be '
            "'SingleStack' to release the secondary IP family"
        )
    ]
    one = {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}
    assert families(update(cluster, obj, {"spec": one})) == ("SingleStack", ["IPv4"], 1)


async def test_a_policy_that_is_left_out_stays() -> None:
    cluster = Cluster(service_cluster_ip_range=DUAL)
    obj = service(cluster, ipFamilyPolicy="PreferDualStack")
    kept = update(cluster, obj, {"spec": {"ipFamilyPolicy": None}})
    assert kept["spec"] == obj["spec"]


async def test_a_cluster_with_one_family_gives_one(cluster: Cluster) -> None:
    """A service that prefers two gets one; a service that requires two is refused."""
    preferring = service(cluster, ipFamilyPolicy="PreferDualStack")
    assert families(preferring) == ("PreferDualStack", ["IPv4"], 1)
    assert refused(cluster, ipFamilyPolicy="RequireDualStack") == [
        (
            'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is '
            "not configured for dual-stack services"
        )
    ]
    assert refused(cluster, ipFamilies=["IPv6"]) == [
        'spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster'
    ]


async def test_a_second_family_comes_and_goes() -> None:
    """With its address; the first stays."""
    cluster = Cluster(service_cluster_ip_range=DUAL)
    obj = service(cluster)
    first = obj["spec"]["clusterIP"]
    obj = update(cluster, obj, {"spec": {"ipFamilyPolicy": "PreferDualStack"}})
    assert families(obj) == ("PreferDualStack", ["IPv4", "IPv6"], 2)
    assert obj["spec"]["clusterIPs"][0] == first
    assert addresses(cluster) == sorted(obj["spec"]["clusterIPs"])
    obj = update(cluster, obj, {"spec": {"ipFamilyPolicy": "SingleStack"}})
    assert families(obj) == ("SingleStack", ["IPv4"], 1)
    assert addresses(cluster) == [first]


async def test_a_service_gives_its_address_up_with_its_type(cluster: Cluster) -> None:
    obj = service(cluster)
    external = {"type": "ExternalName", "externalName": "example.com"}
    obj = update(cluster, obj, {"spec": external})
    assert obj["spec"] == {
        **external,
        "internalTrafficPolicy": "Cluster",
        "ports": [PORT],
        "sessionAffinity": "None",
    }
    assert addresses(cluster) == []
    obj = update(cluster, obj, {"spec": {"type": "ClusterIP"}})
    assert obj["spec"]["externalName"] == "example.com"
    assert addresses(cluster) == obj["spec"]["clusterIPs"]


async def test_addresses_cannot_be_changed(cluster: Cluster) -> None:
    """Only given up with the service; a write without them keeps them."""
    obj = service(cluster)
    for change in (
        {"clusterIP": "10.96.9.9", "clusterIPs": ["10.96.9.9"]},
        {"clusterIP": "None", "clusterIPs": ["None"]},
    ):
        with pytest.raises(Refusal) as raised:
            update(cluster, obj, {"spec": change})
        assert causes(raised.value)[0].startswith("spec.clusterIPs[0]: Invalid value")
        assert causes(raised.value)[0].endswith(": may not change once set")
    bare = {"clusterIP": None, "clusterIPs": None, "ports": [{"port": 81}]}
    kept = update(cluster, obj, {"spec": bare})
    assert kept["spec"]["clusterIPs"] == obj["spec"]["clusterIPs"]


def node_ports(obj: JSON) -> list[int | None]:
    return [each.get("nodePort") for each in obj["spec"]["ports"]]


async def test_node_ports_come_and_go_with_the_type(cluster: Cluster) -> None:
    """One for each port; the same for one port with two protocols."""
    ports = [
        {"name": "a", "port": 80},
        {"name": "b", "port": 53},
        {"name": "c", "port": 53, "protocol": "UDP"},
    ]
    obj = service(cluster, type="NodePort", ports=ports)
    assert node_ports(obj) == [30086, 30087, 30087]
    assert obj["spec"]["externalTrafficPolicy"] == "Cluster"
    other = service(cluster, "other", type="LoadBalancer")
    assert node_ports(other) == [30088]
    for port in ports:
        port["targetPort"] = port["port"]
    again = update(cluster, obj, {"spec": {"ports": ports}})
    assert node_ports(again) == node_ports(obj)
    plain = update(cluster, again, {"spec": {"type": "ClusterIP"}})
    assert node_ports(plain) == [None] * 3
    assert "externalTrafficPolicy" not in plain["spec"]
    assert node_ports(service(cluster, "third", type="NodePort")) == [30086]


async def test_a_balanced_service_may_go_without_node_ports(cluster: Cluster) -> None:
    """And one whose traffic is local gets one more, for health checks."""
    bare = service(cluster, type="LoadBalancer", allocateLoadBalancerNodePorts=False)
    assert node_ports(bare) == [None]
    local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    obj = service(cluster, "local", **local)
    assert obj["spec"]["healthCheckNodePort"] not in node_ports(obj)
    plain = update(cluster, obj, {"spec": {"externalTrafficPolicy": "Cluster"}})
    assert "healthCheckNodePort" not in plain["spec"]


async def test_node_ports_follow_the_names_of_ports(cluster: Cluster) -> None:
    """Also when a port has another number; a new port has its own."""
    obj = service(cluster, type="NodePort", ports=[{"name": "a", "port": 80}])
    ports = [{"name": "b", "port": 80}, {"name": "a", "port": 81}]
    changed = update(cluster, obj, {"spec": {"ports": ports}})
    assert node_ports(changed) == [30087, 30086]


async def test_one_node_port_is_chosen_for_all_protocols(cluster: Cluster) -> None:
    """Of one number; ports of other numbers cannot have it."""
    ports: list[JSON] = [
        {"name": "t", "port": 53},
        {"name": "u", "port": 53, "protocol": "UDP", "nodePort": 30053},
    ]
    obj = service(cluster, "dns", type="NodePort", ports=ports)
    assert node_ports(obj) == [30053, 30053]
    ports = [
        {"name": "a", "port": 1, "nodePort": 30001},
        {"name": "b", "port": 2, "nodePort": 30001, "protocol": "UDP"},
    ]
    assert refused(cluster, type="NodePort", ports=ports) == [
        (
            "spec.ports[1].nodePort: Invalid value: 30001: provided port is already "
            "allocated"
        )
    ]


async def test_a_node_port_that_is_not_free_is_refused(cluster: Cluster) -> None:
    chosen = [{"port": 80, "nodePort": 30500}]
    assert node_ports(service(cluster, type="NodePort", ports=chosen)) == [30500]
    assert refused(cluster, type="NodePort", ports=chosen) == [
        (
            "spec.ports[0].nodePort: Invalid value: 30500: provided port is already "
            "allocated"
        )
    ]
    assert refused(cluster, type="NodePort", ports=[{"port": 80, "nodePort": 80}]) == [
        (
            "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the "
            "valid range. The range of valid ports is 30000-32767"
        )
    ]


async def test_endpoints_go_with_their_service(cluster: Cluster) -> None:
    service(cluster)
    create(cluster, "Endpoints", {"metadata": {"name": "web"}})
    create(cluster, "Endpoints", {"metadata": {"name": "other"}})
    delete(cluster, "web")
    assert names(cluster, "endpoints") == ["other"]


async def test_affinity_has_a_timeout(cluster: Cluster) -> None:
    obj = service(cluster, sessionAffinity="ClientIP")
    config = {"clientIP": {"timeoutSeconds": 10800}}
    assert obj["spec"]["sessionAffinityConfig"] == config
    plain = update(cluster, obj, {"spec": {"sessionAffinity": "None"}})
    assert "sessionAffinityConfig" not in plain["spec"]
