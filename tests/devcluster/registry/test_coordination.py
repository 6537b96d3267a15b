"""Leases, and the candidates for them, which need a feature gate."""

import pytest

from controller_manager.devcluster.scheme.statuses import Refusal
from tests.client.leadership.elections import COORDINATED
from tests.clusters import Cluster
from tests.devcluster.registry.requests import causes, create

pytestmark = pytest.mark.looptime


async def test_lease_fields_of_a_disabled_gate_are_dropped(cluster: Cluster) -> None:
    spec = {"holderIdentity": "a", "strategy": "OldestEmulationVersion"}
    lease = create(cluster, "Lease", {"spec": {**spec, "preferredHolder": "b"}})
    assert lease["spec"] == {"holderIdentity": "a"}


async def test_lease_fields_of_an_enabled_gate_are_kept() -> None:
    spec = {"holderIdentity": "a", "strategy": "OldestEmulationVersion"}
    spec["preferredHolder"] = "b"
    lease = create(Cluster(features=COORDINATED), "Lease", {"spec": spec})
    assert lease["spec"] == spec


async def test_candidates_of_a_lease_are_served() -> None:
    """While the gate is enabled; their names may have any case."""
    server = Cluster(features=COORDINATED).server
    kind = server.catalogue.find("coordination.k8s.io", "v1beta1", "leasecandidates")
    assert kind is not None
    candidate = {
        "leaseName": "kube-controller-manager",
        "binaryVersion": "1.36.2",
        "emulationVersion": "1.35.0",
        "strategy": "OldestEmulationVersion",
    }
    mine = {"strategy": "example.com/mine", "emulationVersion": ""}
    for name, change in (("Node_1", {}), ("mine", mine)):
        body = {"metadata": {"name": name}, "spec": {**candidate, **change}}
        server.objects.create(kind, "default", body)
    nameless = {"metadata": {"name": "b"}, "spec": {**candidate, "leaseName": ""}}
    with pytest.raises(Refusal) as raised:
        server.objects.create(kind, "default", nameless)
    assert causes(raised.value) == ["spec.leaseName: Required value"]


async def test_without_the_gate_no_candidates_are_served(cluster: Cluster) -> None:
    found = cluster.server.catalogue.find(
        "coordination.k8s.io", "v1beta1", "leasecandidates"
    )
    assert found is None
