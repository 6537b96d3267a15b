"""Controllers that are left out, and the permissions of those that run."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pytest

from controller_manager import upstream
from controller_manager.api.coordination.v1 import LEASES
from controller_manager.api.coordination.v1beta1 import LEASE_CANDIDATES
from controller_manager.api.dynamicresources.v1beta2 import DEVICE_TAINT_RULES
from controller_manager.api.meta import AnyResource
from controller_manager.api.scheduling.v1alpha2 import POD_GROUPS
from controller_manager.client.builder import Connections
from controller_manager.client.rest.transport import Request, Stream
from controller_manager.controllers.certificates.signing.options import SigningOptions
from controller_manager.controllers.cluster.garbagecollector import (
    GarbageCollectorOptions,
)
from controller_manager.controllers.identity.tokens import TokensOptions
from controller_manager.devcluster.inmemory import InMemoryTransport
from controller_manager.manager.selection import (
    LeftOut,
    left_out_controllers,
    starting_controllers,
)
from controller_manager.options.config import (
    Config,
    GenericConfig,
    LeaderElectionConfig,
    PodRangesConfig,
)
from controller_manager.options.gates import COORDINATED_ELECTION, FeatureGates
from controller_manager.registry import registry
from controller_manager.runtime.permissions import allow, allow_everywhere, within
from controller_manager.runtime.registry import Registry
from tests.clusters import ROOT_CA, Cluster, make_config, run_manager
from tests.manager.daemons import manager_permissions, take_over_from
from tests.meddler import Meddler

FORMER = "node_4f8c1c53-9d5c-4b8e-8d57-0b7a4b1e2c3d"
SIGNER = "certificatesigningrequest-signing-controller"
TOKENS = "serviceaccount-token-controller"
ALL = Config(
    controllers={
        SigningOptions: SigningOptions(cert_file="/pki/ca.crt", key_file="/pki/ca.key"),
        TokensOptions: TokensOptions(private_key_file="/pki/sa.key"),
    },
    pod_ranges=PodRangesConfig(allocate=True, cluster="10.244.0.0/16"),
)
"""The config of a manager to which no flag is missing."""


def selecting(*entries: str) -> Config:
    return replace(ALL, generic=GenericConfig(controllers=entries))


def test_with_all_flags_no_controller_is_absent() -> None:
    assert left_out_controllers(registry(), ALL, ROOT_CA) == []


SIGNING_FLAGS = "--cluster-signing-cert-file and --cluster-signing-key-file"
NO_GARBAGE_COLLECTOR: Any = {
    GarbageCollectorOptions: GarbageCollectorOptions(enabled=False)
}
ABSENT = {
    SIGNER: f"give {SIGNING_FLAGS}",
    TOKENS: "give --service-account-private-key-file",
    "node-ipam-controller": "give --allocate-node-cidrs",
    "garbage-collector-controller": "give --enable-garbage-collector=true",
    "device-taint-eviction-controller": "give --feature-gates=DRADeviceTaints=true",
    "root-ca-certificate-publisher-controller": (
        "give --root-ca-file, or a kubeconfig with a certificate-authority"
    ),
}


@pytest.mark.parametrize(
    ("config", "names"),
    [
        (replace(ALL, controllers={}), [SIGNER, TOKENS]),
        (replace(ALL, pod_ranges=PodRangesConfig()), ["node-ipam-controller"]),
        (
            replace(ALL, controllers={**ALL.controllers, **NO_GARBAGE_COLLECTOR}),
            ["garbage-collector-controller"],
        ),
        (
            replace(ALL, features=FeatureGates({"DRADeviceTaints": False})),
            ["device-taint-eviction-controller"],
        ),
    ],
)
def test_each_absent_controller_comes_with_the_flag_that_is_missing(
    config: Config, names: list[str]
) -> None:
    """The descriptor says why it does not start; so the daemon does not start it."""
    absent = [LeftOut(name, ABSENT[name]) for name in names]
    assert left_out_controllers(registry(), config, ROOT_CA) == absent


def test_an_authority_or_a_selection_may_leave_controllers_out() -> None:
    name = "root-ca-certificate-publisher-controller"
    assert left_out_controllers(registry(), ALL, "") == [LeftOut(name, ABSENT[name])]
    selected = selecting("*", "-job", "-csrsigning")
    assert left_out_controllers(registry(), selected, ROOT_CA) == [
        LeftOut(SIGNER, "--controllers leaves it out"),
        LeftOut("job-controller", "--controllers leaves it out"),
    ]


def test_controllers_that_are_off_by_default_upstream_are_not_absent() -> None:
    """Neither those behind gates that are off by default, nor those to be named."""
    found = {
        each.name for each in left_out_controllers(registry(), selecting("ttl"), "")
    }
    behind_gates = {
        each.name
        for each in registry().descriptors
        if not all(gate.default for gate in each.requires_gates)
    }
    assert found == set(upstream.ON_BY_DEFAULT) - behind_gates - {"ttl-controller"}


def test_a_controller_that_the_build_lacks_is_absent() -> None:
    build = Registry(
        each for each in registry().descriptors if each.name != "job-controller"
    )
    assert left_out_controllers(build, ALL, ROOT_CA) == [
        LeftOut("job-controller", "this build lacks it")
    ]


async def warnings_after(cluster: Cluster, former: str, config: Config) -> list[str]:
    """Return the lines about the takeover from a manager with that identity."""
    return (await take_over_from(cluster, former, config, ROOT_CA))[1]


EVERYTHING = make_config(controllers=("*",), leader_election=LeaderElectionConfig())


@pytest.mark.looptime
async def test_a_takeover_names_controllers_left_out(cluster: Cluster) -> None:
    (line,) = await warnings_after(cluster, FORMER, EVERYTHING)
    assert line.startswith("W")
    assert line.endswith(
        '"Took the lease over from another manager; no manager runs these controllers '
        'of kube-controller-manager now" '
        f'former="{FORMER}" controllers="{SIGNER} (give --cluster-signing-cert-file '
        "and --cluster-signing-key-file), node-ipam-controller (give "
        f"--allocate-node-cidrs), {TOKENS} (give "
        '--service-account-private-key-file)"'
    )


@pytest.mark.looptime
async def test_a_takeover_from_our_kind_warns_of_nothing(cluster: Cluster) -> None:
    former = "node_4f8c1c53-9d5c-8b8e-8d57-0b7a4b1e2c3d"
    assert await warnings_after(cluster, former, EVERYTHING) == []


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
