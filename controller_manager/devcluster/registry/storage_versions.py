"""The versions in which objects are stored, and the migration to the newest one.

The groups internal.apiserver.k8s.io and storagemigration.k8s.io.
"""

from typing import Final

from controller_manager.api.json_objects import JSON

from .kinds import kind_of, true_conditions

# Stored versions


def _listed(obj: JSON) -> list[str]:
    return [
        f"{each['apiServerID']}={each['encodingVersion']}"
        for each in obj["status"].get("storageVersions", ())
    ]


STORAGE_VERSIONS: Final = kind_of(
    "internal.apiserver.k8s.io/v1alpha1",
    "storageversions",
    printer="""
        Name
        CommonEncodingVersion: .status.commonEncodingVersion or <unset>
        StorageVersions: few listed
        Age
        """,
)

# Migrations

_ENDS: Final = ("Succeeded", "Failed")


def _resource(migration: JSON) -> str:
    resource = migration["spec"]["resource"]
    parts = (resource.get("resource"), resource.get("group"))
    return ".".join(each for each in parts if each)


def _state(migration: JSON) -> str:
    """Return the last condition that is true."""
    found = true_conditions(migration)
    return next((each for each in (*_ENDS, "Running") if each in found), "")


MIGRATIONS: Final = kind_of(
    "storagemigration.k8s.io/v1beta1",
    "storageversionmigrations",
    counts_generations=True,
    rules="""
        spec:
          resource always:
            resource: required "resource is required"
        """,
    update_rules="""
        spec change:
          resource: immutable
        """,
    printer="Name; Resource: resource; Status: state",
)
