"""ControllerRevision: one revision of a template, for rollbacks."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
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
from controller_manager.devcluster.validation.text import table

_REVISION: Final = table(
    """
    data: required pointer "data is mandatory"
    revision: not-negative
    """
)
_UPDATE: Final = table("data: immutable")


class ControllerRevisionStrategy(Strategy):
    """The data is immutable; the number of the revision is not."""

    rules: ClassVar = _REVISION
    update_rules: ClassVar = _UPDATE
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


KIND: Final = kind_of("apps/v1", "controllerrevisions", ControllerRevisionStrategy())
