"""Writes that a real API server refuses, and its messages.

``wrong-manifests.yaml`` has mistakes that manifests often have, ``devcluster/refused``
those of each group: a ``change`` of the minimal object of a kind that is created, an
``update`` of the object that was ``given``, or a ``write`` of its status, which was
``status`` before.
"""

from pathlib import Path
from typing import Final

import pytest
import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.client.leadership.elections import COORDINATED
from tests.clusters import Cluster
from tests.devcluster.registry.requests import causes, create, update

pytestmark = pytest.mark.looptime

DATA: Final = Path(__file__).parents[2] / "data"
FILES: Final = (
    DATA / "wrong-manifests.yaml",
    *sorted((DATA / "devcluster" / "refused").glob("*.yaml")),
)
MISTAKES: Final = [
    mistake
    for file in FILES
    for mistake in yaml.load(file.read_text(), yaml.CSafeLoader)
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: str(each["kind"]))
async def test_a_wrong_write_is_refused(cluster: Cluster, mistake: JSON) -> None:
    """With all its errors and their fields."""
    kind = mistake["kind"]
    if "change" in mistake:
        with pytest.raises(Refusal) as raised:
            create(cluster, kind, mistake["change"])
    else:
        obj = create(cluster, kind, mistake.get("given"))
        if status := mistake.get("status"):
            obj = update(cluster, obj, {"status": status}, "status")
        subresource = "status" if "write" in mistake else ""
        status_change = {"status": mistake.get("write")}
        with pytest.raises(Refusal) as raised:
            update(cluster, obj, mistake.get("update", status_change), subresource)
    assert causes(raised.value) == mistake["says"]


async def test_a_range_that_a_policy_has_may_stay(cluster: Cluster) -> None:
    """Though it is wrong, as in clusters that are older than the check."""
    wrong = {"ipBlock": {"cidr": "10.0.0.0"}}
    created = create(cluster, "NetworkPolicy")
    kind = cluster.server.catalogue.find("networking.k8s.io", "v1", "networkpolicies")
    assert kind is not None
    old = {**created, "spec": {**created["spec"], "ingress": [{"from": [wrong]}]}}
    stored = cluster.server.objects.put(kind, ("default", "a"), old).obj
    labelled = update(cluster, stored, {"metadata": {"labels": {"a": "b"}}})
    assert labelled["spec"] == old["spec"]


async def test_pods_that_share_the_network_of_their_node_get_its_ports(
    cluster: Cluster,
) -> None:
    """Templates do not: their pods get them."""
    shared = {
        "hostNetwork": True,
        "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}],
    }
    pod = create(cluster, "Pod", {"spec": shared})
    (port,) = pod["spec"]["containers"][0]["ports"]
    assert port == {"containerPort": 80, "hostPort": 80, "protocol": "TCP"}
    deployment = create(cluster, "Deployment", {"spec": {"template": {"spec": shared}}})
    (port,) = deployment["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert port == {"containerPort": 80, "protocol": "TCP"}


async def test_lease_fields_of_a_disabled_gate_are_dropped(cluster: Cluster) -> None:
    """CoordinatedLeaderElection is off by default."""
    spec = {"holderIdentity": "a", "strategy": "OldestEmulationVersion"}
    lease = create(cluster, "Lease", {"spec": {**spec, "preferredHolder": "b"}})
    assert lease["spec"] == {"holderIdentity": "a"}


async def test_lease_fields_of_an_enabled_gate_are_kept() -> None:
    """The strategy must be known, and go before a preferred holder."""
    cluster = Cluster(features=COORDINATED)
    spec = {"holderIdentity": "a", "strategy": "OldestEmulationVersion"}
    spec["preferredHolder"] = "b"
    assert create(cluster, "Lease", {"spec": spec})["spec"] == spec
    with pytest.raises(Refusal) as raised:
        create(cluster, "Lease", {"spec": {"strategy": "Youngest"}})
    supported = 'supported values: "OldestEmulationVersion"'
    assert causes(raised.value) == [
        f'spec.strategy.strategy: Unsupported value: "Youngest": {supported}'
    ]
    with pytest.raises(Refusal) as raised:
        create(cluster, "Lease", {"spec": {"preferredHolder": "b"}})
    why = "may only be specified if `strategy` is defined"
    assert causes(raised.value) == [f"spec.preferredHolder: Forbidden: {why}"]


BINARY_VERSION: Final = "spec.binaryVersion"
NOT_SEMANTIC: Final = "must be a valid semantic version"
NOT_YOUNGER: Final = "must be greater than or equal to `emulationVersion`"
NEEDED_BY_STRATEGY: Final = (
    "must be specified when `strategy` is 'OldestEmulationVersion'"
)
CANDIDATE: Final = {
    "leaseName": "kube-controller-manager",
    "binaryVersion": "1.36.2",
    "emulationVersion": "1.35.0",
    "strategy": "OldestEmulationVersion",
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ""),
        ({"strategy": "example.com/mine", "emulationVersion": ""}, ""),
        ({"leaseName": ""}, "spec.leaseName: Required value"),
        (
            {"binaryVersion": "1.36"},
            f'{BINARY_VERSION}: Invalid value: "1.36": {NOT_SEMANTIC}',
        ),
        (
            {"emulationVersion": "1.37.0"},
            f'{BINARY_VERSION}: Invalid value: "1.36.2": {NOT_YOUNGER}',
        ),
        (
            {"emulationVersion": ""},
            f"spec.emulationVersion: Required value: {NEEDED_BY_STRATEGY}",
        ),
        ({"strategy": ""}, "spec.strategy: Required value"),
    ],
)
async def test_candidates_of_a_lease_are_checked(change: JSON, expected: str) -> None:
    """The API serves them while the gate is enabled; their names may have any case."""
    server = Cluster(features=COORDINATED).server
    kind = server.catalogue.find("coordination.k8s.io", "v1beta1", "leasecandidates")
    assert kind is not None
    body = {"metadata": {"name": "Node_1"}, "spec": {**CANDIDATE, **change}}
    if not expected:
        server.objects.create(kind, "default", body)
        return
    with pytest.raises(Refusal) as raised:
        server.objects.create(kind, "default", body)
    assert causes(raised.value) == [expected]


async def test_without_the_gate_no_candidates_are_served(cluster: Cluster) -> None:
    """Clients then get a 404."""
    found = cluster.server.catalogue.find(
        "coordination.k8s.io", "v1beta1", "leasecandidates"
    )
    assert found is None
