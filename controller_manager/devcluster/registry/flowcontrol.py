"""Flow schemas and priority levels; this server limits no request.

Their rules are few, since they have no effect. Upstream:
apiserver/pkg/apis/flowcontrol/bootstrap.
"""

from collections.abc import Iterable
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
from controller_manager.devcluster.apiserver.objects import Objects
from controller_manager.devcluster.apiserver.strategy import Strategy
from controller_manager.devcluster.storage import Stored

from .kinds import bootstrap_manifest, fixed_uid, kind_of, name_of

_GROUP_VERSION: Final = "flowcontrol.apiserver.k8s.io/v1"


def _missing(schema: JSON) -> str:
    conditions = schema.get("status", {}).get("conditions", ())
    found = (each["status"] for each in conditions if each["type"] == "Dangling")
    return next(found, "?")


def _precedence(stored: Stored) -> tuple[int, str]:
    return stored.obj["spec"]["matchingPrecedence"], name_of(stored.obj)


class _SchemaStrategy(Strategy):
    """Lists the schemas in the order in which requests meet them."""

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the precedence."""
        spec = obj.setdefault("spec", {})
        spec["matchingPrecedence"] = spec.get("matchingPrecedence") or 1000

    def in_table_order(self, items: Iterable[Stored]) -> Iterable[Stored]:
        """Return the schemas by precedence, then by name."""
        return sorted(items, key=_precedence)


SCHEMAS: Final = kind_of(
    _GROUP_VERSION,
    "flowschemas",
    _SchemaStrategy(),
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


class _LevelStrategy(Strategy):
    """Fills in the shares and the queues."""

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the shares, and the sizes of queues that are absent or 0."""
        spec = obj.setdefault("spec", {})
        if spec.get("type") == "Exempt":
            spec.setdefault("exempt", {})
        super().apply_defaults(obj)
        queuing = spec.get("limited", {}).get("limitResponse", {}).get("queuing")
        if queuing is not None:
            for name, value in _QUEUING.items():
                queuing[name] = queuing.get(name) or value


_QUEUING: Final = {"handSize": 8, "queues": 64, "queueLengthLimit": 50}
LEVELS: Final = kind_of(
    _GROUP_VERSION,
    "prioritylevelconfigurations",
    _LevelStrategy(),
    counts_generations=True,
    defaults={
        "spec": {
            "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
            "limited": {"nominalConcurrencyShares": 30, "lendablePercent": 0},
        }
    },
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
