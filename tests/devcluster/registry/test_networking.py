"""Service CIDRs, IP addresses and network policies."""

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.devcluster.registry.requests import causes, create, update

pytestmark = pytest.mark.looptime


def refused(cluster: Cluster, kind: str, obj: JSON) -> list[str]:
    with pytest.raises(Refusal) as raised:
        create(cluster, kind, obj)
    return causes(raised.value)


NOT_A_RANGE = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


@pytest.mark.parametrize(
    ("cidrs", "expected"),
    [
        ([], ["spec.cidrs: Required value: at least one CIDR required"]),
        (
            ["10.0.0.1/8"],
            [f'spec.cidrs[0]: Invalid value: "10.0.0.1/8": {NOT_A_RANGE}'],
        ),
        (
            ["10.0.0.0/24", "10.1.0.0/24"],
            [
                (
                    "spec.cidrs: may specify no more than one IP for each IP family, "
                    "i.e 192.168.0.0/24 and 2001:db8::/64"
                )
            ],
        ),
        (
            ["10.0.0.0/24", "fd00::/64", "10.1.0.0/24"],
            ["spec.cidrs: may only hold up to 2 values"],
        ),
    ],
)
async def test_ranges_of_services_are_checked(
    cluster: Cluster, cidrs: list[str], expected: list[str]
) -> None:
    """One of each family is enough."""
    assert refused(cluster, "ServiceCIDR", {"spec": {"cidrs": cidrs}}) == expected


async def test_a_second_family_may_be_added_to_a_range(cluster: Cluster) -> None:
    """Nothing else may change."""
    obj = create(cluster, "ServiceCIDR", {"spec": {"cidrs": ["10.0.0.0/24"]}})
    both = ["10.0.0.0/24", "fd00::/64"]
    obj = update(cluster, obj, {"spec": {"cidrs": both}})
    assert obj["spec"] == {"cidrs": both}
    for other in (both[:1], both[::-1]):
        with pytest.raises(Refusal) as raised:
            update(cluster, obj, {"spec": {"cidrs": other}})
        assert causes(raised.value) == ["spec.cidrs: field is immutable"]


async def test_services_get_addresses_of_every_range() -> None:
    """Of one that is being deleted no more."""
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


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (
            {"metadata": {"name": "10.0.0.01"}},
            [
                (
                    'metadata.name: Invalid value: "10.0.0.01": must be a canonical '
                    "form IP address"
                )
            ],
        ),
        ({"spec": {"parentRef": None}}, ["spec.parentRef: Required value"]),
        (
            {"spec": {"parentRef": {"resource": None, "name": "a/b"}}},
            [
                "spec.parentRef.resource: Required value",
                "spec.parentRef.name: Invalid value: \"a/b\": may not contain '/'",
            ],
        ),
    ],
)
async def test_addresses_are_checked(
    cluster: Cluster, obj: JSON, expected: list[str]
) -> None:
    """By their names, and by their owners."""
    assert refused(cluster, "IPAddress", obj) == expected


async def test_an_address_stays_with_its_owner(cluster: Cluster) -> None:
    """The reference is immutable."""
    obj = create(cluster, "IPAddress")
    with pytest.raises(Refusal) as raised:
        update(cluster, obj, {"spec": {"parentRef": {"name": "b"}}})
    assert causes(raised.value) == ["spec.parentRef: field is immutable"]


async def test_a_network_policy_has_types(cluster: Cluster) -> None:
    """Those of the rules that it has; ports have a protocol."""
    created = create(cluster, "NetworkPolicy")
    assert created["spec"] == {"podSelector": {}, "policyTypes": ["Ingress"]}
    egress = [{"ports": [{"port": 53}]}]
    other = {"metadata": {"name": "b"}, "spec": {"egress": egress}}
    assert create(cluster, "NetworkPolicy", other)["spec"] == {
        "podSelector": {},
        "policyTypes": ["Ingress", "Egress"],
        "egress": [{"ports": [{"port": 53, "protocol": "TCP"}]}],
    }
