"""Leases, candidates for them, stored versions and their migrations, and flow control.

No election takes place here: nothing in the development cluster writes the holder of
a lease. No request is limited, so the rules for flow schemas and priority levels are
few. Upstream: apiserver/pkg/apis/flowcontrol/bootstrap.
"""

from collections.abc import Iterable
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.apiserver.kind import GatedKind
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.apiserver.strategy import fill
from controller_manager.devcluster.scheme import names
from controller_manager.devcluster.scheme.statuses import Cause, not_supported, shown
from controller_manager.devcluster.storage import Stored
from controller_manager.options.gates import COORDINATED_ELECTION

from .kinds import bootstrap_manifest, fixed_uid, kind_of, name_of, true_conditions

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
    "coordination.k8s.io/v1/leases",
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
        "coordination.k8s.io/v1beta1/leasecandidates",
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
    "internal.apiserver.k8s.io/v1alpha1/storageversions",
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
    "storagemigration.k8s.io/v1beta1/storageversionmigrations",
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


_GROUP_VERSION: Final = "flowcontrol.apiserver.k8s.io/v1"


def _missing(schema: JSON) -> str:
    conditions = schema.get("status", {}).get("conditions", ())
    found = (each["status"] for each in conditions if each["type"] == "Dangling")
    return next(found, "?")


def _default_precedence(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    spec["matchingPrecedence"] = spec.get("matchingPrecedence") or 1000


def _by_precedence(items: Iterable[Stored]) -> Iterable[Stored]:
    return sorted(
        items,
        key=lambda each: (each.obj["spec"]["matchingPrecedence"], name_of(each.obj)),
    )


SCHEMAS: Final = kind_of(
    f"{_GROUP_VERSION}/flowschemas",
    apply_defaults=_default_precedence,
    in_table_order=_by_precedence,
    counts_generations=True,
    rules="""
        spec:
          matchingPrecedence: at-least 1 "must be a positive value"
          matchingPrecedence: at-most 10000 "must not be greater than 10000"
          distinguisherMethod:
            type: enum ByNamespace ByUser default empty
          priorityLevelConfiguration always:
            name: required "must reference a priority level"
            name: subdomain
          rules[]:
            subjects[]:
              kind: enum Group ServiceAccount User default empty
            subjects: required "subjects must contain at least one value"
        """,
    printer="""
        Name
        PriorityLevel: .spec.priorityLevelConfiguration.name
        MatchingPrecedence: .spec.matchingPrecedence
        DistinguisherMethod: .spec.distinguisherMethod.type or <none>
        Age
        MissingPL: missing
        """,
)


def _default_level(obj: JSON) -> None:
    spec = obj.setdefault("spec", {})
    if spec.get("type") == "Exempt":
        spec.setdefault("exempt", {})
    fill(obj, _LEVEL)
    queuing = spec.get("limited", {}).get("limitResponse", {}).get("queuing")
    if queuing is not None:
        for name, value in _QUEUING.items():
            queuing[name] = queuing.get(name) or value


_LEVEL: Final = {
    "spec": {
        "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
        "limited": {"nominalConcurrencyShares": 30, "lendablePercent": 0},
    }
}
_QUEUING: Final = {"handSize": 8, "queues": 64, "queueLengthLimit": 50}
LEVELS: Final = kind_of(
    f"{_GROUP_VERSION}/prioritylevelconfigurations",
    apply_defaults=_default_level,
    counts_generations=True,
    rules="""
        spec:
          type: enum Exempt Limited default empty
          when type is Exempt:
            limited: forbidden "must be nil if the type is not Limited"
          when type is Limited:
            exempt: forbidden "must be nil if the type is Limited"
            limited: required pointer "must not be empty when type is Limited"
            limited:
              limitResponse always:
                type: enum Queue Reject default empty
        """,
    printer="""
        Name
        Type: .spec.type
        NominalConcurrencyShares: .spec.limited.nominalConcurrencyShares or <none>
        Queues: .spec.limited.limitResponse.queuing.queues or <none>
        HandSize: .spec.limited.limitResponse.queuing.handSize or <none>
        QueueLengthLimit: .spec.limited.limitResponse.queuing.queueLengthLimit or <none>
        Age
        """,
)


def add_bootstrap_flows(objects: Objects) -> None:
    """Store the mandatory and the suggested objects of upstream that are missing."""
    now = format_time(objects.clock.now())
    for each in bootstrap_manifest("bootstrap-flows.yaml"):
        kind = SCHEMAS if each["kind"] == SCHEMAS.kind else LEVELS
        name, status = each["metadata"]["name"], {}
        if objects.has(kind, "", name):
            continue
        metadata = {
            "name": name,
            "uid": fixed_uid(f"{kind.plural}/{name}"),
            "generation": 1,
            "creationTimestamp": now,
            "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"},
        }
        if kind is SCHEMAS:
            level = each["spec"]["priorityLevelConfiguration"]["name"]
            condition = {
                "type": "Dangling",
                "status": "False",
                "lastTransitionTime": now,
                "reason": "Found",
                "message": "This FlowSchema references the PriorityLevelConfiguration "
                f'object named "{level}" and it exists',
            }
            status = {"conditions": [condition]}
        stored = {"metadata": metadata, "spec": each["spec"], "status": status}
        objects.put(kind, ("", name), stored)
