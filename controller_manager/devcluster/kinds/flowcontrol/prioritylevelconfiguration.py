"""PriorityLevelConfiguration: limits of requests, which this server does not apply."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.server.registry.objects import Objects
from controller_manager.devcluster.server.registry.rest_storage import RESTStorage
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    NONE,
    Cells,
    Column,
    age,
)

from .bootstrap_flows import MANDATORY, PRIORITY_LEVELS, with_metadata
from .flow_control_strategy import FlowControlStrategy, validate_fixed
from .flowschema import KIND as FLOW_SCHEMAS
from .flowschema import set_dangling
from .priority_level_validation import EXEMPT, validate_level_spec

_SHARES: Final = 30
_QUEUING: Final = {"handSize": 8, "queues": 64, "queueLengthLimit": 50}


class PriorityLevelStrategy(FlowControlStrategy):
    """Restores the mandatory levels, and keeps their specs."""

    columns: ClassVar = (
        NAME,
        Column("Type"),
        Column("NominalConcurrencyShares"),
        Column("Queues"),
        Column("HandSize"),
        Column("QueueLengthLimit"),
        AGE,
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the shares and the queues."""
        spec = obj.setdefault("spec", {})
        if spec.get("type") == EXEMPT:
            spec.setdefault("exempt", {})
        for name, shares in (("exempt", 0), ("limited", _SHARES)):
            if name in spec:
                spec[name].setdefault("nominalConcurrencyShares", shares)
                spec[name].setdefault("lendablePercent", 0)
        queuing = spec.get("limited", {}).get("limitResponse", {}).get("queuing")
        if queuing is not None:
            for name, value in _QUEUING.items():
                queuing[name] = queuing.get(name) or value

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the spec; that of mandatory levels is fixed."""
        name, spec = obj["metadata"].get("name", ""), obj["spec"]
        causes = list(validate_level_spec(name, spec))
        if name in MANDATORY:
            causes += _validate_mandatory(name, spec)
        return causes

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        limited = obj["spec"].get("limited", {})
        queuing = limited.get("limitResponse", {}).get("queuing", {})
        return [
            name_of(obj),
            obj["spec"].get("type", ""),
            limited.get("nominalConcurrencyShares", NONE),
            queuing.get("queues", NONE),
            queuing.get("handSize", NONE),
            queuing.get("queueLengthLimit", NONE),
            age(obj, now),
        ]


def add_priority_level(objects: Objects, name: str) -> None:
    """Store one of the levels that every cluster has."""
    obj = with_metadata(objects, name, "prioritylevelconfigurations")
    objects.put(KIND, ("", name), {**obj, "spec": PRIORITY_LEVELS[name], "status": {}})


def _validate_mandatory(name: str, spec: JSON) -> list[Cause]:
    """Check the spec of a mandatory level; the exempt one may lend other shares."""
    fixed = PRIORITY_LEVELS[name]
    if name != "exempt":
        return validate_fixed(name, spec, fixed)
    fixed = {**fixed, "exempt": spec.get("exempt")}
    return validate_fixed(name, spec, fixed, "except the 'spec.exempt' fields ")


def _update_schemas(objects: Objects, level: str) -> None:
    """Set the condition Dangling of the schemas that name a level."""
    schemas = objects.storage.collection(FLOW_SCHEMAS.resource)
    for stored in list(schemas):
        reference = stored.obj["spec"]["priorityLevelConfiguration"]
        if reference.get("name") == level:
            set_dangling(objects, stored.obj)


KIND: Final = kind_of(
    "flowcontrol.apiserver.k8s.io/v1",
    "prioritylevelconfigurations",
    PriorityLevelStrategy(),
)


def keep_mandatory_level(objects: Objects, old: JSON | None, new: JSON | None) -> None:
    """Restore a mandatory level; set Dangling of the schemas of another level."""
    name = name_of(new or old or {})
    if new is None and name in MANDATORY:
        add_priority_level(objects, name)
    elif new is None or old is None:
        _update_schemas(objects, name)


REST_STORAGE: Final = RESTStorage(KIND.resource, after_write=keep_mandatory_level)
