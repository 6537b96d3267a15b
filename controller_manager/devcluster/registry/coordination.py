"""Leases, candidates for them, versions of stored objects and their migrations.

No election takes place here: nothing in the development cluster writes the holder of
a lease.
"""

from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.kind import GatedKind
from controller_manager.devcluster.scheme import names
from controller_manager.devcluster.scheme.statuses import Cause, not_supported, shown
from controller_manager.options.gates import COORDINATED_ELECTION

from .kinds import kind_of, true_conditions

_OLDEST_EMULATION: Final = "OldestEmulationVersion"


def _election(strategy: str, field: str) -> list[Cause]:
    """Check a strategy (ValidateCoordinatedLeaseStrategy of validation.go).

    Names without a slash are those of Kubernetes. The causes name the field twice, as
    upstream's causes do.
    """
    if "/" in strategy:
        return names.validate_qualified_name(strategy, f"{field}.strategy")
    if strategy == _OLDEST_EMULATION:
        return []
    return [not_supported(f"{field}.strategy", shown(strategy), (_OLDEST_EMULATION,))]


LEASES: Final = kind_of(
    "coordination.k8s.io/v1",
    "leases",
    allows_unconditional_update=False,
    dropped=("spec.preferredHolder", "spec.strategy"),
    rules="""
        spec:
          leaseDurationSeconds: at-least 1 "must be greater than 0"
          leaseTransitions: not-negative
          strategy: election pointer
          preferredHolder: forbidden filled if strategy is null empty
            "may only be specified if `strategy` is defined"
        """,
    printer="Name; Holder: .spec.holderIdentity; Age",
    gated={COORDINATED_ELECTION: {"dropped": ()}},
)
CANDIDATES: Final = GatedKind(
    kind_of(
        "coordination.k8s.io/v1beta1",
        "leasecandidates",
        allows_unconditional_update=False,
        check_name=names.validate_config_key,
        rules="""
            spec always:
              leaseName, binaryVersion, strategy: required
              strategy: election
            """,
        update_rules="spec change:\n  leaseName: immutable",
        printer="""
            Name
            LeaseName: .spec.leaseName
            BinaryVersion: .spec.binaryVersion
            EmulationVersion: .spec.emulationVersion
            Age
            """,
    ),
    required_gate=COORDINATED_ELECTION,
)


# Stored versions


def _listed(obj: JSON) -> list[str]:
    return [
        f"{each['apiServerID']}={each['encodingVersion']}"
        for each in obj["status"].get("storageVersions", ())
    ]


STORAGE_VERSIONS: Final = kind_of(
    "internal.apiserver.k8s.io/v1alpha1",
    "storageversions",
    printer="""
        Name
        CommonEncodingVersion: .status.commonEncodingVersion or <unset>
        StorageVersions: few listed
        Age
        """,
)

# Migrations

_ENDS: Final = ("Succeeded", "Failed")


def _resource(migration: JSON) -> str:
    resource = migration["spec"]["resource"]
    parts = (resource.get("resource"), resource.get("group"))
    return ".".join(each for each in parts if each)


def _state(migration: JSON) -> str:
    """Return the last condition that is true."""
    found = true_conditions(migration)
    return next((each for each in (*_ENDS, "Running") if each in found), "")


MIGRATIONS: Final = kind_of(
    "storagemigration.k8s.io/v1beta1",
    "storageversionmigrations",
    counts_generations=True,
    rules="""
        spec:
          resource always:
            resource: required "resource is required"
        """,
    update_rules="""
        spec change:
          resource: immutable
        """,
    printer="Name; Resource: resource; Status: state",
)
