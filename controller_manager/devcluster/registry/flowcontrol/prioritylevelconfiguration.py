"""PriorityLevelConfiguration: limits of requests, which this server does not apply."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.objects import Objects, RESTStorage
from controller_manager.devcluster.apiserver.strategy import (
    AGE,
    NAME,
    NONE,
    Cells,
    Column,
    Strategy,
    age,
)
from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.registry.columns import name_of

from .bootstrap_flows import MANDATORY, PRIORITY_LEVELS, with_metadata
from .flowschema import KIND as FLOW_SCHEMAS
from .flowschema import set_dangling
from .validation import CONDITION_TYPES, PRIORITY_LEVEL

_SHARES: Final = 30
_QUEUING: Final = {"handSize": 8, "queues": 64, "queueLengthLimit": 50}


class PriorityLevelStrategy(Strategy):
    """Restores the mandatory levels, and keeps their specs."""

    counts_generations: ClassVar = True
    rules: ClassVar = PRIORITY_LEVEL
    status_rules: ClassVar = CONDITION_TYPES
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
        if spec.get("type") == "Exempt":
            spec.setdefault("exempt", {})
        for name, shares in (("exempt", 0), ("limited", _SHARES)):
            if name in spec:
                spec[name].setdefault("nominalConcurrencyShares", shares)
                spec[name].setdefault("lendablePercent", 0)
        queuing = spec.get("limited", {}).get("limitResponse", {}).get("queuing")
        if queuing is not None:
            for name, value in _QUEUING.items():
                queuing[name] = queuing.get(name) or value

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
