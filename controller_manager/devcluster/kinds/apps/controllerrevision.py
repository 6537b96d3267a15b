"""ControllerRevision: one revision of a template, for rollbacks."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    required,
    shown,
)
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    NONE,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.validation.field_values import (
    IMMUTABLE,
    validate_not_negative_at,
)


class ControllerRevisionStrategy(Strategy):
    """The data is immutable; the number of the revision is not."""

    columns: ClassVar = (
        NAME,
        Column("Controller"),
        Column("Revision", "integer"),
        AGE,
    )

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check that there are data, and that the number is not negative."""
        causes = []
        if obj.get("data") is None:
            causes.append(required("data", "data is mandatory"))
        return causes + validate_not_negative_at(obj["revision"], "revision")

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that the data do not change."""
        if old["data"] == new.get("data"):
            return ()
        return (invalid("data", shown(new.get("data")), IMMUTABLE),)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        controller = next(
            (
                _qualified(each)
                for each in obj["metadata"].get("ownerReferences", ())
                if each.get("controller")
            ),
            NONE,
        )
        return [name_of(obj), controller, obj.get("revision", 0), age(obj, now)]


def _qualified(owner: JSON) -> str:
    """Return ``kind.group/name`` of an owner."""
    group = owner["apiVersion"].rpartition("/")[0]
    kind = owner["kind"].lower()
    return f"{kind}.{group}/{owner['name']}" if group else f"{kind}/{owner['name']}"


KIND: Final = kind_of("apps/v1", "controllerrevisions", ControllerRevisionStrategy())
