"""Slices of devices, rules that taint them, and claims to them."""

import asyncio

import pytest

from tests.clusters import Cluster
from tests.conformance.access import Access
from tests.devcluster.registry.requests import create, update

pytestmark = pytest.mark.looptime

ALLOCATION = {"devices": {"results": [{"driver": "d", "pool": "p", "device": "x"}]}}
USER = {"resource": "pods", "name": "a", "uid": "1"}
CONDITION = {
    "type": "EvictionInProgress",
    "status": "True",
    "reason": "PodsPendingEviction",
    "message": "1 pod needs to be evicted in 1 namespace",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


async def test_a_rule_has_the_time_of_its_taint(
    cluster: Cluster,
) -> None:
    """From its creation on, or from the last change of the effect."""
    rule = create(cluster, "DeviceTaintRule")
    added = rule["metadata"]["creationTimestamp"]
    taint = {"key": "broken", "effect": "NoExecute", "timeAdded": added}
    assert rule["spec"] == {"taint": taint}
    assert (rule["status"], rule["metadata"]["generation"]) == ({}, 1)
    await asyncio.sleep(5)
    valued = update(cluster, rule, {"spec": {"taint": {"value": "x"}}})
    assert valued["spec"]["taint"] == {**taint, "value": "x"}
    weak = update(cluster, valued, {"spec": {"taint": {"effect": "None"}}})
    assert weak["spec"]["taint"]["timeAdded"] > added
    assert weak["metadata"]["generation"] == 3
    given = {"spec": {"taint": {"effect": "NoExecute", "timeAdded": added}}}
    assert update(cluster, weak, given)["spec"]["taint"]["timeAdded"] == added


async def test_a_rule_may_select_one_device(cluster: Cluster) -> None:
    """By its driver, its pool, which may be a path, and its name."""
    spec = {"deviceSelector": {"driver": "a.b", "pool": "n/0", "device": "x"}}
    created = create(cluster, "DeviceTaintRule", {"spec": spec})
    assert created["spec"]["deviceSelector"] == spec["deviceSelector"]


async def test_a_rule_has_conditions(cluster: Cluster) -> None:
    """As all newer kinds."""
    rule = create(cluster, "DeviceTaintRule")
    body = {"status": {"conditions": [CONDITION]}}
    assert update(cluster, rule, body, "status")["status"] == body["status"]


async def test_a_rule_is_served_in_both_versions(cluster: Cluster) -> None:
    """It is one object."""
    access = Access(cluster.transport, "n")
    body = {
        "apiVersion": "resource.k8s.io/v1alpha3",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "a"},
        "spec": {"taint": {"key": "broken", "effect": "NoSchedule"}},
    }
    old = "/apis/resource.k8s.io/v1alpha3/devicetaintrules"
    posted = await access.call("POST", old, body)
    new = await access.call("GET", "/apis/resource.k8s.io/v1beta2/devicetaintrules/a")
    assert posted["apiVersion"] == "resource.k8s.io/v1alpha3"
    assert new == {**posted, "apiVersion": "resource.k8s.io/v1beta2"}


async def test_taints_of_a_slice_say_when_they_were_added(cluster: Cluster) -> None:
    """When the slice was written, unless its driver says otherwise."""
    early = {"key": "a", "effect": "None", "timeAdded": "2020-01-01T00:00:00Z"}
    late = {"key": "b", "effect": "NoExecute"}
    devices = [{"name": "x", "taints": [early]}, {"name": "y", "taints": [late]}]
    made = create(cluster, "ResourceSlice", {"spec": {"devices": devices}})
    assert [each["taints"][0]["timeAdded"] for each in made["spec"]["devices"]] == [
        early["timeAdded"],
        made["metadata"]["creationTimestamp"],
    ]
    assert made["spec"]["pool"] == {
        "name": "a",
        "generation": 0,
        "resourceSliceCount": 1,
    }


async def test_slices_are_found_by_their_node(cluster: Cluster) -> None:
    """And by their driver."""
    create(cluster, "ResourceSlice")
    access = Access(cluster.transport, "n")
    path = "/apis/resource.k8s.io/v1/resourceslices"
    for selector, count in (("nodeName=node-0", 1), ("driver=other.example.com", 0)):
        found = await access.call("GET", f"{path}?fieldSelector=spec.{selector}")
        assert len(found["items"]) == count


async def test_an_allocated_claim_is_reserved_and_given_back(cluster: Cluster) -> None:
    """By its consumers; its allocation goes with the last of them."""
    claim = create(cluster, "ResourceClaim")
    both = {"status": {"reservedFor": [USER], "allocation": ALLOCATION}}
    claim = update(cluster, claim, both, "status")
    back = {"status": {"allocation": None, "reservedFor": None}}
    assert update(cluster, claim, back, "status")["status"] == {}


async def test_the_parts_of_a_claim_name_its_requests(cluster: Cluster) -> None:
    """Fields of other kinds with that name have quantities."""
    devices = {
        "requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}],
        "constraints": [{"requests": ["r"], "matchAttribute": "example.com/numa"}],
        "config": [
            {"requests": ["r"], "opaque": {"driver": "d", "parameters": {"a": "b"}}}
        ],
    }
    spec = create(cluster, "ResourceClaim", {"spec": {"devices": devices}})["spec"]
    for name in ("constraints", "config"):
        assert spec["devices"][name] == devices[name]
