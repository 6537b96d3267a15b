"""The kind of the group internal.apiserver.k8s.io: the versions that are stored."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import Strategy
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown
from controller_manager.devcluster.validation.text import table

from .built_in import kind_of
from .columns import columns

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
