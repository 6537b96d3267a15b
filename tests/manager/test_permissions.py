"""The permissions of the manager itself."""

from controller_manager.api.coordination.v1 import LEASES
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


def test_leader_migration_needs_a_second_lease() -> None:
    election = LeaderElectionConfig(resource_namespace="here", resource_name="own")
    alone = manager_permissions((), election)
    migrating = manager_permissions((), election, migration_lease="moving")
    second = within("here", allow(LEASES, "get", "update", "watch", names=("moving",)))
    assert {*migrating} == {*alone, *second}


def test_a_manager_without_an_election_needs_no_lease_and_no_events() -> None:
    election = LeaderElectionConfig(leader_elect=False)
    assert manager_permissions((), election, is_coordinated=True) == ()
