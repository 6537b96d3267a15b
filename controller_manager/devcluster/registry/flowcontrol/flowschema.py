"""FlowSchema: assigns requests to a priority level; the server limits no request."""

from collections.abc import Iterable
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time
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
from controller_manager.devcluster.storage import Stored

from .bootstrap_flows import FLOW_SCHEMAS, MANDATORY, with_metadata
from .validation import CONDITION_TYPES, FLOW_SCHEMA

LEVELS: Final = "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io"
_PRECEDENCE: Final = 1000
_REFERENCE: Final = "This FlowSchema references the PriorityLevelConfiguration object"


class FlowSchemaStrategy(Strategy):
    """Sets the condition Dangling, and restores the mandatory schemas."""

    counts_generations: ClassVar = True
    rules: ClassVar = FLOW_SCHEMA
    status_rules: ClassVar = CONDITION_TYPES
    columns: ClassVar = (
        NAME,
        Column("PriorityLevel"),
        Column("MatchingPrecedence"),
        Column("DistinguisherMethod"),
        AGE,
        Column("MissingPL"),
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the precedence."""
        spec = obj.setdefault("spec", {})
        spec["matchingPrecedence"] = spec.get("matchingPrecedence") or _PRECEDENCE

    def in_table_order(self, items: Iterable[Stored]) -> Iterable[Stored]:
        """Return the schemas in the order in which requests meet them."""
        return sorted(items, key=precedence_of)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec = obj["spec"]
        conditions = obj.get("status", {}).get("conditions", ())
        missing = [each["status"] for each in conditions if each["type"] == "Dangling"]
        return [
            name_of(obj),
            spec["priorityLevelConfiguration"].get("name", ""),
            spec["matchingPrecedence"],
            spec.get("distinguisherMethod", {}).get("type", NONE),
            age(obj, now),
            missing[0] if missing else "?",
        ]


def precedence_of(stored: Stored) -> tuple[int, str]:
    """Return the order in which requests meet a schema: by precedence, then by name."""
    return stored.obj["spec"]["matchingPrecedence"], name_of(stored.obj)


def add_flow_schema(objects: Objects, name: str) -> None:
    """Store one of the schemas that every cluster has."""
    obj = {**with_metadata(objects, name, "flowschemas"), "spec": FLOW_SCHEMAS[name]}
    set_dangling(objects, {**obj, "status": {}})


def set_dangling(objects: Objects, schema: JSON) -> None:
    """Store a schema with the condition Dangling, as the API server's controller."""
    level = schema["spec"]["priorityLevelConfiguration"].get("name", "")
    exists = objects.storage.collection(LEVELS).get(("", level)) is not None
    told = "and it exists" if exists else "but there is no such object"
    condition = {
        "type": "Dangling",
        "status": "False" if exists else "True",
        "reason": "Found" if exists else "NotFound",
        "message": f'{_REFERENCE} named "{level}" {told}',
    }
    conditions = schema["status"].get("conditions", [])
    known = [each for each in conditions if each.get("type") == "Dangling"]
    if known and {**known[0], **condition} == known[0]:
        return
    condition["lastTransitionTime"] = format_time(objects.clock.now())
    others = [each for each in conditions if each.get("type") != "Dangling"]
    status = {"conditions": [*others, condition]}
    objects.put(KIND, ("", name_of(schema)), {**schema, "status": status})


KIND: Final = kind_of(
    "flowcontrol.apiserver.k8s.io/v1", "flowschemas", FlowSchemaStrategy()
)


def keep_mandatory_schema(objects: Objects, old: JSON | None, new: JSON | None) -> None:
    """Set the condition Dangling, and restore a mandatory schema."""
    if new is not None:
        set_dangling(objects, new)
    elif old is not None and (name := name_of(old)) in MANDATORY:
        add_flow_schema(objects, name)


REST_STORAGE: Final = RESTStorage(KIND.resource, after_write=keep_mandatory_schema)
