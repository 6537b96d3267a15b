"""The versions in which objects are stored, and the migration to the newest one.

The groups internal.apiserver.k8s.io and storagemigration.k8s.io.
"""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import Strategy
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown
from controller_manager.devcluster.validation.conditions import CONDITIONS
from controller_manager.devcluster.validation.text import table

from .built_in import kind_of
from .columns import columns

# Stored versions

_SHOWN: Final = 3
"""The number of API servers that the table names at most."""


def _server(entry: JSON) -> str:
    return str(entry.get("apiServerID", ""))


def _decodable(entry: JSON, path: str, _: JSON) -> Iterator[Cause]:
    version, decodable = (
        entry.get("encodingVersion", ""),
        entry.get("decodableVersions", ()),
    )
    if version not in decodable:
        why = f"decodableVersions must include encodingVersion {version}"
        yield invalid(f"{path}decodableVersions", shown(decodable), why)


def _one_version(status: JSON, path: str, _: JSON) -> Iterator[Cause]:
    """Check that the common version is the one of all API servers."""
    servers = status.get("storageVersions", ())
    versions = {each.get("encodingVersion", "") for each in servers}
    common = status.get("commonEncodingVersion")
    wanted = next(iter(versions)) if len(versions) == 1 else None
    if common != wanted:
        why = (
            f"the common encoding version is {wanted}"
            if wanted
            else "there is no common encoding version, it must be unset"
        )
        yield invalid(f"{path}commonEncodingVersion", shown(common), why)


def _listed(obj: JSON) -> str:
    listed = [
        f"{each['apiServerID']}={each['encodingVersion']}"
        for each in obj["status"].get("storageVersions", ())
    ]
    more = len(listed) - _SHOWN
    return ",".join(listed[:_SHOWN]) + (f" + {more} more..." if more > 0 else "")


STORAGE_VERSIONS: Final = kind_of(
    "internal.apiserver.k8s.io/v1alpha1",
    "storageversions",
    Strategy(
        status_rules=table(
            """
            status:
              storageVersions[]:
                apiServerID: required
                apiServerID: unique by server
                hook decodable
              hook one_version
            """,
            _server,
            _decodable,
            _one_version,
        ),
        printer=columns(
            """
            Name
            CommonEncodingVersion: .status.commonEncodingVersion or <unset>
            StorageVersions: listed
            Age
            """,
            _listed,
        ),
    ),
)

# Migrations

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
