"""StorageVersion: the versions in which API servers store a resource."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    invalid,
    required,
    shown,
)
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)

_SHOWN: Final = 3
"""The number of API servers that the table names at most."""


class StorageVersionStrategy(Strategy):
    """Checks that the common version is the one of all API servers."""

    columns: ClassVar = (
        NAME,
        Column("CommonEncodingVersion"),
        Column("StorageVersions"),
        AGE,
    )

    def validate_status(self, obj: JSON) -> Sequence[Cause]:
        """Check the entry of each API server, and the common version."""
        return [*_validate_servers(obj["status"]), *_validate_common(obj["status"])]

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        status = obj["status"]
        listed = [
            f"{each['apiServerID']}={each['encodingVersion']}"
            for each in status.get("storageVersions", ())
        ]
        more = len(listed) - _SHOWN
        text = ",".join(listed[:_SHOWN]) + (f" + {more} more..." if more > 0 else "")
        common = status.get("commonEncodingVersion", "<unset>")
        return [name_of(obj), common, text, age(obj, now)]


def _validate_servers(status: JSON) -> Iterator[Cause]:
    seen = set()
    for number, each in enumerate(status.get("storageVersions", ())):
        field = f"status.storageVersions[{number}]"
        server, version = each.get("apiServerID", ""), each.get("encodingVersion", "")
        if not server:
            yield required(f"{field}.apiServerID")
        if server in seen:
            yield duplicate(f"{field}.apiServerID", shown(server))
        seen.add(server)
        decodable = each.get("decodableVersions", ())
        if version not in decodable:
            why = f"decodableVersions must include encodingVersion {version}"
            yield invalid(f"{field}.decodableVersions", shown(decodable), why)


def _validate_common(status: JSON) -> Sequence[Cause]:
    servers = status.get("storageVersions", ())
    versions = {each.get("encodingVersion", "") for each in servers}
    common = status.get("commonEncodingVersion")
    wanted = next(iter(versions)) if len(versions) == 1 else None
    if common == wanted:
        return ()
    why = (
        f"the common encoding version is {wanted}"
        if wanted
        else "there is no common encoding version, it must be unset"
    )
    return (invalid("status.commonEncodingVersion", shown(common), why),)


KIND: Final = kind_of(
    "internal.apiserver.k8s.io/v1alpha1", "storageversions", StorageVersionStrategy()
)
