"""StorageVersionMigration: asks to rewrite all objects of a resource."""

from collections.abc import Iterator
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import NAME, Cells, Column
from controller_manager.devcluster.validation.conditions import CONDITIONS
from controller_manager.devcluster.validation.text import table

_ENDS: Final = ("Succeeded", "Failed")


def _is_true(status: JSON, name: str) -> bool:
    return any(
        each.get("type") == name and each.get("status") == "True"
        for each in status.get("conditions", ())
    )


def _ends_twice(status: JSON, _: JSON) -> bool:
    return all(_is_true(status, each) for each in _ENDS)


def _number(version: str, field: str) -> Iterator[Cause]:
    if not version.isdecimal():
        yield invalid(field, shown(version), "resource version must be a number")


def _version_changes(status: JSON, old: JSON) -> bool:
    known = old.get("resourceVersion", "")
    return bool(known and known != status.get("resourceVersion", ""))


def _end(status: JSON, path: str, old: JSON) -> Iterator[Cause]:
    """Check that a true final condition stays true."""
    for end in _ENDS:
        if _is_true(old, end) and not _is_true(status, end):
            why = f"{end} condition cannot be set to false once it is true"
            yield invalid(f"{path}conditions", shown(status.get("conditions")), why)


_RULES: Final = table(
    """
    spec:
      resource always:
        resource: required "resource is required"
    """
)
_UPDATE: Final = table(
    """
    spec change:
      resource: immutable
    """
)
_STATUS: Final = table(
    """
    status:
      include CONDITIONS
      conditions: invalid if ends_twice
        "Both success and failed conditions cannot be true at the same time"
    """,
    _ends_twice,
    CONDITIONS=CONDITIONS,
)
_STATUS_UPDATE: Final = table(
    """
    status change:
      resourceVersion: number
      resourceVersion: invalid default empty if version_changes
        "resourceVersion cannot be updated"
      hook end
    """,
    _number,
    _version_changes,
    _end,
)


class StorageVersionMigrationStrategy(Strategy):
    """The resource is immutable, and so is the final condition."""

    counts_generations: ClassVar = True
    rules: ClassVar = _RULES
    update_rules: ClassVar = _UPDATE
    status_rules: ClassVar = _STATUS
    status_update_rules: ClassVar = _STATUS_UPDATE
    columns: ClassVar = (NAME, Column("Resource"), Column("Status"))

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table: the last condition that is true counts."""
        del now
        resource = obj["spec"]["resource"]
        name = ".".join(
            each for each in (resource.get("resource"), resource.get("group")) if each
        )
        states = (*_ENDS, "Running")
        state = next((each for each in states if _is_true(obj["status"], each)), "")
        return [name_of(obj), name, state]


KIND: Final = kind_of(
    "storagemigration.k8s.io/v1beta1",
    "storageversionmigrations",
    StorageVersionMigrationStrategy(),
)
