"""The status of a storage version without some API servers, as a table."""

from typing import Final

import pytest

from controller_manager.api.apiserverinternal.v1alpha1 import (
    ServerStorageVersion,
    StorageVersion,
    StorageVersionStatus,
)
from controller_manager.api.meta import Condition, ObjectMeta
from controller_manager.controllers.cluster.storageversiongarbagecollector.controller import (  # noqa: E501 - a long name
    servers_of,
    status_without,
)

BEFORE: Final = "2026-01-01T00:00:00Z"
NOW: Final = "2026-01-01T01:00:00Z"


def entry(server: str, version: str) -> ServerStorageVersion:
    return ServerStorageVersion(
        api_server_id=server, encoding_version=version, decodable_versions=(version,)
    )


def condition(common: str | None, since: str) -> Condition:
    state = "unset" if common is None else "set"
    return Condition(
        type="AllEncodingVersionsEqual",
        status="False" if common is None else "True",
        observed_generation=7,
        last_transition_time=since,
        reason=f"CommonEncodingVersion{state.title()}",
        message=f"Common encoding version {state}",
    )


def stored(
    common: str | None, *conditions: Condition, **versions: str
) -> StorageVersion:
    return StorageVersion(
        metadata=ObjectMeta(name="apps.deployments", generation=7),
        status=StorageVersionStatus(
            storage_versions=tuple(entry(*each) for each in versions.items()),
            common_encoding_version=common,
            conditions=conditions or None,
        ),
    )


@pytest.mark.parametrize(
    ("version", "gone", "left", "common", "since"),
    [
        pytest.param(
            stored("v1", a="v1", b="v2", c="v2"), "a", "bc", "v2", NOW, id="they agree"
        ),
        pytest.param(
            stored("v1", a="v1", b="v2", c="v2"), "b", "ac", None, NOW, id="they do not"
        ),
        pytest.param(
            stored("v1", condition("v1", BEFORE), a="v1", b="v1"),
            *("b", "a", "v1", BEFORE),
            id="they still agree",
        ),
        pytest.param(
            stored("v1", condition("v1", BEFORE), a="v1", b="v2"),
            *("a", "b", "v2", NOW),
            id="they agree on another version",
        ),
        pytest.param(
            stored(None, condition(None, BEFORE), a="v1", b="v2", c="v3"),
            *("a", "bc", None, BEFORE),
            id="they still do not agree",
        ),
    ],
)
def test_the_others_stay_and_agree_or_not(
    version: StorageVersion, gone: str, left: str, common: str | None, since: str
) -> None:
    """The time of the condition is that of the last change."""
    kept = [
        each
        for each in version.status.storage_versions or ()
        if each.api_server_id in left
    ]
    assert status_without(version, gone, NOW) == StorageVersionStatus(
        storage_versions=tuple(kept),
        common_encoding_version=common,
        conditions=(condition(common, since),),
    )


def test_without_any_api_server_nothing_is_left() -> None:
    """The object is deleted then."""
    assert status_without(stored("v1", a="v1", b="v1"), "ab", NOW) is None


def test_conditions_of_others_stay() -> None:
    """In their places."""
    other = Condition(type="Other", status="True")
    version = stored("v1", other, condition("v1", BEFORE), a="v1", b="v2")
    status = status_without(version, "a", NOW)
    assert status is not None
    assert status.conditions == (other, condition("v2", NOW))


def test_an_api_server_is_named_once() -> None:
    """Also if it is listed twice."""
    assert list(servers_of(stored(None, a="v1"))) == ["a"]
    assert list(servers_of(StorageVersion())) == []
