"""ControllerRevision: one revision of a template, for rollbacks."""

from datetime import datetime
from typing import Any, ClassVar, Final

from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.server.kind import Kind
from controller_manager.devcluster.server.strategy import Strategy
from controller_manager.devcluster.server.tables import (
    AGE,
    NAME,
    NONE,
    Cells,
    Column,
    age,
)

JSON = dict[str, Any]


class ControllerRevisionStrategy(Strategy):
    """Shows the owner and the number of a revision."""

    columns: ClassVar = (
        NAME,
        Column("Controller"),
        Column("Revision", "integer"),
        AGE,
    )

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


KIND: Final = Kind(
    "apps",
    "v1",
    "ControllerRevision",
    "controllerrevisions",
    model="V1ControllerRevision",
    strategy=ControllerRevisionStrategy(),
)
