"""The permissions of the manager itself."""

from controller_manager.api.coordination.v1beta1 import LEASE_CANDIDATES
from controller_manager.manager.permissions import manager_permissions
from controller_manager.options.config import LeaderElectionConfig
from controller_manager.runtime.permissions import allow, within


def test_a_coordinated_election_needs_a_lease_candidate_beside_the_lease() -> None:
    election = LeaderElectionConfig(resource_namespace="here")
    alone = manager_permissions((), election)
    coordinated = manager_permissions((), election, is_coordinated=True)
    candidate = within("here", allow(LEASE_CANDIDATES, "create", "get", "update"))
    assert coordinated == (*alone, *candidate)
