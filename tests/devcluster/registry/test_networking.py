"""Ranges of service addresses, and of network policies."""

import pytest

from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.devcluster.registry.requests import create, update

pytestmark = pytest.mark.looptime


async def test_a_second_family_may_be_added_to_a_range(cluster: Cluster) -> None:
    obj = create(cluster, "ServiceCIDR", {"spec": {"cidrs": ["10.0.0.0/24"]}})
    both = ["10.0.0.0/24", "fd00::/64"]
    obj = update(cluster, obj, {"spec": {"cidrs": both}})
    assert obj["spec"] == {"cidrs": both}


async def test_services_get_addresses_of_every_range() -> None:
    small = Cluster(service_cluster_ip_range="10.0.0.0/30")
    names = ("a", "b", "c")
    cidr = {"metadata": {"name": "more"}, "spec": {"cidrs": ["192.168.0.0/24"]}}
    more = create(small, "ServiceCIDR", cidr)
    given = [
        create(small, "Service", {"metadata": {"name": name}})["spec"]["clusterIP"]
        for name in names
    ]
    assert [each.rpartition(".")[0] for each in given] == [
        "10.0.0",
        "10.0.0",
        "192.168.0",
    ]
    kind = small.server.catalogue.find("networking.k8s.io", "v1", "servicecidrs")
    assert kind is not None
    metadata = {**more["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    small.server.objects.put(kind, ("", "more"), {**more, "metadata": metadata})
    with pytest.raises(Refusal, match="range is full"):
        create(small, "Service", {"metadata": {"name": "d"}})


async def test_a_range_that_a_policy_has_may_stay(cluster: Cluster) -> None:
    wrong = {"ipBlock": {"cidr": "10.0.0.0"}}
    created = create(cluster, "NetworkPolicy")
    kind = cluster.server.catalogue.find("networking.k8s.io", "v1", "networkpolicies")
    assert kind is not None
    old = {**created, "spec": {**created["spec"], "ingress": [{"from": [wrong]}]}}
    stored = cluster.server.objects.put(kind, ("default", "a"), old).obj
    labelled = update(cluster, stored, {"metadata": {"labels": {"a": "b"}}})
    assert labelled["spec"] == old["spec"]
