"""After any writes of users, each address and each node port has one service."""

import random
from contextlib import suppress

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import Deletion
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.devcluster.registry.requests import create, update

pytestmark = pytest.mark.looptime

RANGES = "10.0.0.0/28,fd00:10::/124"
TYPES = ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName")
POLICIES = ("SingleStack", "PreferDualStack", "RequireDualStack", None)
FAMILIES = (None, ["IPv4"], ["IPv6"], ["IPv4", "IPv6"], ["IPv6", "IPv4"])
ADDRESSES = (None, "None", "10.0.0.3", "fd00:10::3", "10.0.0.9")


def change(rng: random.Random) -> JSON:
    """Return a spec that a user may write, right or wrong."""
    ports: list[JSON] = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    if rng.random() < 0.3:
        ports[0]["nodePort"] = rng.choice((None, 30001, 30090))
    spec: JSON = {
        "type": rng.choice(TYPES),
        "ipFamilyPolicy": rng.choice(POLICIES),
        "ports": ports[: rng.randint(1, 2)],
        "externalName": rng.choice((None, "example.com")),
        "allocateLoadBalancerNodePorts": rng.choice((None, False)),
        "externalTrafficPolicy": rng.choice((None, "Local")),
        "selector": rng.choice((None, {"a": "b"})),
    }
    for name, values in (("ipFamilies", FAMILIES), ("clusterIP", ADDRESSES)):
        if rng.random() < 0.5:
            spec[name] = rng.choice(values)
    kept = rng.sample(sorted(spec), rng.randint(1, len(spec)))
    return {"spec": {name: spec[name] for name in kept}}


def services(cluster: Cluster) -> dict[str, JSON]:
    collection = cluster.server.storage.collection("services")
    return {each.obj["metadata"]["name"]: each.obj for each in collection}


def act(cluster: Cluster, rng: random.Random) -> None:
    """Create, change or delete a service; some of that is refused."""
    name = f"s{rng.randrange(12)}"
    known = services(cluster).get(name)
    kind = cluster.server.catalogue.find("", "v1", "services")
    assert kind is not None
    with suppress(Refusal):
        if known is None:
            given = {k: v for k, v in change(rng)["spec"].items() if v is not None}
            create(cluster, "Service", {"metadata": {"name": name}, "spec": given})
        elif rng.random() < 0.3:
            cluster.server.objects.delete(kind, "default", name, Deletion())
        else:
            update(cluster, known, change(rng))


def check(cluster: Cluster) -> None:
    """Check that stored addresses and ports agree, and that each has one service."""
    specs = {name: obj["spec"] for name, obj in services(cluster).items()}
    owners = {
        address: name
        for name, spec in specs.items()
        for address in spec.get("clusterIPs", ())
        if address != "None"
    }
    total = sum(
        address != "None"
        for spec in specs.values()
        for address in spec.get("clusterIPs", ())
    )
    assert len(owners) == total
    stored = cluster.server.storage.collection("ipaddresses.networking.k8s.io")
    parents = {
        each.obj["metadata"]["name"]: each.obj["spec"]["parentRef"]["name"]
        for each in stored
    }
    assert parents == owners
    taken: dict[int, str] = {}
    for name, spec in specs.items():
        found = {port["nodePort"] for port in spec["ports"] if "nodePort" in port}
        found |= {spec[key] for key in ("healthCheckNodePort",) if key in spec}
        for port in found:
            assert taken.setdefault(port, name) == name
        check_one(spec)


def check_one(spec: JSON) -> None:
    """Check that a service has what its type needs, and no more."""
    addresses = spec.get("clusterIPs", [])
    if spec["type"] == "ExternalName":
        assert not {"clusterIP", "clusterIPs", "ipFamilies"} & spec.keys()
        return
    assert spec["clusterIP"] == addresses[0]
    families = ["IPv6" if ":" in each else "IPv4" for each in addresses]
    assert addresses == ["None"] or families == spec["ipFamilies"]
    assert len(spec["ipFamilies"]) == 1 or spec["ipFamilyPolicy"] != "SingleStack"
    with_ports = ["nodePort" in port for port in spec["ports"]]
    if spec["type"] == "NodePort":
        assert all(with_ports)
    if spec["type"] == "ClusterIP":
        assert not any(with_ports)


@pytest.mark.parametrize("seed", range(20))
async def test_addresses_and_ports_are_given_once(seed: int) -> None:
    rng = random.Random(seed)
    cluster = Cluster(seed, service_cluster_ip_range=RANGES)
    for _ in range(120):
        act(cluster, rng)
        check(cluster)
    kind = cluster.server.catalogue.find("", "v1", "services")
    assert kind is not None
    for name in services(cluster):
        cluster.server.objects.delete(kind, "default", name, Deletion())
    check(cluster)
