"""The permissions of the manager itself."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Final

import pytest

from controller_manager.api.coordination.v1 import LEASES
from controller_manager.api.coordination.v1beta1 import LEASE_CANDIDATES
from controller_manager.api.dynamicresources.v1beta2 import DEVICE_TAINT_RULES
from controller_manager.api.meta import AnyResource
from controller_manager.api.scheduling.v1alpha2 import POD_GROUPS
from controller_manager.client.builder import Connections
from controller_manager.client.rest.transport import Request, Stream
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.manager.selection import starting_controllers
from controller_manager.options.config import Config, LeaderElectionConfig
from controller_manager.options.gates import COORDINATED_ELECTION, FeatureGates
from controller_manager.registry import registry
from controller_manager.runtime.permissions import allow, allow_everywhere, within
from tests.clusters import ROOT_CA, Cluster, make_config, run_manager
from tests.manager.daemons import manager_permissions
from tests.meddler import Meddler

COORDINATED: Final = FeatureGates({COORDINATED_ELECTION.name: True})


def test_a_coordinated_election_needs_a_lease_candidate_beside_the_lease() -> None:
    election = LeaderElectionConfig(resource_namespace="here")
    alone = manager_permissions((), election)
    coordinated = manager_permissions((), election, features=COORDINATED)
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
    assert manager_permissions((), election, features=COORDINATED) == ()


@pytest.mark.parametrize(
    ("controller", "gate", "resource"),
    [
        ("device-taint-eviction-controller", "DRADeviceTaintRules", DEVICE_TAINT_RULES),
        ("resourceclaim-controller", "DRAWorkloadResourceClaims", POD_GROUPS),
    ],
)
def test_a_resource_that_is_cached_with_a_gate_is_read_with_the_gate(
    controller: str, gate: str, resource: AnyResource
) -> None:
    """The controller waits for it, and the manager needs to list and watch it."""
    election = LeaderElectionConfig(leader_elect=False)
    descriptor = registry()[controller]
    without = manager_permissions((descriptor,), election)
    features = FeatureGates({gate: True})
    enabled = manager_permissions((descriptor,), election, features=features)
    assert {*enabled} - {*without} == {allow(resource, "list", "watch")}
    assert descriptor.requires_with(features) == (*descriptor.requires, resource)


@dataclass
class Watches(Meddler):
    paths: set[str] = field(default_factory=set)

    async def stream(self, request: Request) -> Stream:
        self.paths.add(request.path)
        return await super().stream(request)


@pytest.mark.looptime
async def test_the_manager_watches_only_resources_that_its_controllers_require() -> (
    None
):
    """With all feature gates, each of which may add a cache."""
    build = registry()
    features = FeatureGates({gate.name: True for gate in build.gates})
    read_everything = {allow_everywhere("list").resource}
    names = [
        each.name
        for each in starting_controllers(build, Config(features=features), ROOT_CA)
        if read_everything.isdisjoint(rule.resource for rule in each.permissions)
    ]
    basis = make_config(controllers=tuple(names), use_service_account_credentials=True)
    cluster = Cluster(features=features)
    manager = Watches(cluster.transport)
    connections = Connections(manager, InMemoryTransport(cluster.server))
    config = replace(basis, features=features)
    async with run_manager(connections, cluster.clock, cluster.rng, config):
        await asyncio.sleep(10)
    required = {
        resource.path()
        for name in names
        for resource in build[name].requires_with(features)
    }
    assert len(manager.paths) > 30
    assert manager.paths - required == set()
