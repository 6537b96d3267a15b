"""The kind of the group storagemigration.k8s.io: rewrites all objects of a resource."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import Strategy
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown
from controller_manager.devcluster.validation.conditions import CONDITIONS
from controller_manager.devcluster.validation.text import table

from .built_in import kind_of
from .columns import columns

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


def _resource(migration: JSON) -> str:
    resource = migration["spec"]["resource"]
    parts = (resource.get("resource"), resource.get("group"))
    return ".".join(each for each in parts if each)


def _state(migration: JSON) -> str:
    """Return the last condition that is true."""
    states, status = (*_ENDS, "Running"), migration["status"]
    return next((each for each in states if _is_true(status, each)), "")


MIGRATIONS: Final = kind_of(
    "storagemigration.k8s.io/v1beta1",
    "storageversionmigrations",
    Strategy(
        counts_generations=True,
        rules=table(
            """
            spec:
              resource always:
                resource: required "resource is required"
            """
        ),
        update_rules=table(
            """
            spec change:
              resource: immutable
            """
        ),
        status_rules=table(
            """
            status:
              include CONDITIONS
              conditions: invalid if ends_twice
                "Both success and failed conditions cannot be true at the same time"
            """,
            _ends_twice,
            CONDITIONS=CONDITIONS,
        ),
        status_update_rules=table(
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
        ),
        printer=columns("Name; Resource: resource; Status: state", _resource, _state),
    ),
)
