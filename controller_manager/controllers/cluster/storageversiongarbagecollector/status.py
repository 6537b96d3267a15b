"""The status of a storage version without some API servers (updater.go)."""

from collections.abc import Container, Iterable, Sequence

from msgspec.structs import replace

from controller_manager.api.apiserverinternal.v1alpha1 import (
    ServerStorageVersion,
    StorageVersion,
    StorageVersionStatus,
)
from controller_manager.api.conditions import Condition, with_condition

_EQUAL = "AllEncodingVersionsEqual"


def servers_of(version: StorageVersion) -> Iterable[str]:
    """Return the names of the API servers in a storage version, each once."""
    listed = version.status.storage_versions or ()
    return dict.fromkeys(each.api_server_id for each in listed)


def status_without(
    version: StorageVersion, gone: Container[str], now: str
) -> StorageVersionStatus | None:
    """Return the status without the API servers in `gone`, or None if none is left.

    A condition tells whether the other API servers use the same encoding version. `now`
    is the time of the transition.
    """
    status = version.status
    left = tuple(
        each for each in status.storage_versions or () if each.api_server_id not in gone
    )
    if not left:
        return None
    common = _common_version(left)
    condition = _condition(common, version.metadata.generation, now)
    conditions = with_condition(status.conditions, condition)
    if _has_moved(status.common_encoding_version, common):
        # The API servers agreed on a version before, and agree on another one now.
        conditions = tuple(
            condition if each.type == _EQUAL else each for each in conditions
        )
    return StorageVersionStatus(
        storage_versions=left, common_encoding_version=common, conditions=conditions
    )


def _common_version(listed: Sequence[ServerStorageVersion]) -> str | None:
    versions = {each.encoding_version for each in listed}
    return versions.pop() if len(versions) == 1 else None


def _has_moved(before: str | None, after: str | None) -> bool:
    return before is not None and after is not None and before != after


def _condition(common: str | None, generation: int, now: str) -> Condition:
    unset = Condition(
        type=_EQUAL,
        status="False",
        observed_generation=generation,
        last_transition_time=now,
        reason="CommonEncodingVersionUnset",
        message="Common encoding version unset",
    )
    if common is None:
        return unset
    return replace(
        unset,
        status="True",
        reason="CommonEncodingVersionSet",
        message="Common encoding version set",
    )
