"""Bindings of roles: columns, messages and validation that both kinds share."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.names import validate_path_segment
from controller_manager.devcluster.scheme.statuses import Cause
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)

from .validation import BINDING_UPDATE, GROUP

_SUBJECTS: Final = ("User", "Group", "ServiceAccount")


class BindingStrategy(Strategy):
    """The name may be any segment of a path."""

    update_rules: ClassVar = BINDING_UPDATE
    columns: ClassVar = (
        NAME,
        Column("Role"),
        AGE,
        Column("Users", priority=1),
        Column("Groups", priority=1),
        Column("ServiceAccounts", priority=1),
    )

    def validate_name(self, name: str) -> list[Cause]:
        """Check the name of a new binding."""
        return validate_path_segment(name, "metadata.name")

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in the API groups of the role and of the subjects."""
        reference = obj.setdefault("roleRef", {})
        if not reference.get("apiGroup"):
            reference["apiGroup"] = GROUP
        for subject in obj.get("subjects") or ():
            if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
                subject["apiGroup"] = GROUP

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        role = obj.get("roleRef", {})
        return [
            name_of(obj),
            f"{role.get('kind', '')}/{role.get('name', '')}",
            age(obj, now),
            *(_subjects(obj, kind) for kind in _SUBJECTS),
        ]


def _subjects(obj: JSON, kind: str) -> str:
    """Return the names of one kind of subjects; accounts with their namespace."""
    return ", ".join(
        f"{each['namespace']}/{each['name']}" if each.get("namespace") else each["name"]
        for each in obj.get("subjects", ())
        if each.get("kind") == kind
    )
