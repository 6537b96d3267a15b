"""The order of migrations, and the comparison of versions, as tables."""

from typing import Final

import pytest

from controller_manager.api.meta import Condition, ObjectMeta
from controller_manager.api.storagemigration.v1beta1 import (
    GroupResource,
    StorageVersionMigration,
    StorageVersionMigrationStatus,
)
from controller_manager.client.discovery.resources import Discovery, ServedResource
from controller_manager.controllers.cluster.storageversionmigrator import (
    conditions,
    controller,
)

ALL: Final = frozenset(("get", "list", "update", "patch"))


def migration(name: str, created: int, *true: str) -> StorageVersionMigration:
    conditions = tuple(Condition(type=each, status="True") for each in true)
    return StorageVersionMigration(
        metadata=ObjectMeta(
            name=name, creation_timestamp=f"2026-01-01T00:00:0{created}Z", generation=3
        ),
        status=StorageVersionMigrationStatus(conditions=conditions or None),
    )


@pytest.mark.parametrize(
    ("migrations", "expected"),
    [
        ([], None),
        ([migration("b", 1), migration("a", 2)], "b"),
        ([migration("b", 1), migration("a", 1)], "a"),
        ([migration("b", 1, "Succeeded"), migration("a", 2)], "a"),
        ([migration("b", 1, "Failed"), migration("a", 2)], "a"),
        ([migration("b", 2, "Running"), migration("a", 1)], None),
        ([migration("b", 1, "Running", "Succeeded"), migration("a", 2)], None),
        ([migration("a", 1, "Succeeded"), migration("b", 1, "Failed")], None),
    ],
)
def test_the_oldest_is_next_unless_one_is_running(
    migrations: list[StorageVersionMigration], expected: str | None
) -> None:
    found = conditions.next_of(migrations)
    assert (found and found.metadata.name) == expected


def test_a_migration_ends_in_three_conditions_at_most() -> None:
    begun = conditions.running(migration("a", 1), "t1")
    assert conditions.is_running(begun)
    assert not conditions.has_ended(begun)
    ended = conditions.failed(begun, "no way", "t2")
    assert conditions.is_running(ended)
    assert conditions.has_ended(ended)
    assert not conditions.has_succeeded(ended)
    done = conditions.completed(ended, "t3")
    assert not conditions.is_running(done)
    assert conditions.has_ended(done)
    (running, failed) = done.status.conditions or ()
    assert (running.type, running.status) == ("Running", "False")
    assert (running.last_transition_time, running.observed_generation) == ("t3", 3)
    assert (failed.type, failed.message) == ("Failed", "no way")
    assert failed.last_transition_time == "t2"


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1", True),
        ("18446744073709551616", True),
        ("", False),
        ("0", False),
        ("01", False),
        ("-1", False),
        ("abc", False),
        ("٣", False),
    ],
)
def test_a_version_is_a_number(version: str, expected: bool) -> None:
    assert controller.is_comparable(version) == expected


def served(version: str, preferred: bool = True, **others: object) -> ServedResource:  # noqa: FBT002
    given: dict[str, object] = {"group": "apps", "plural": "deployments", **others}
    return ServedResource(
        group=str(given["group"]),
        version=version,
        plural=str(given["plural"]),
        kind="Deployment",
        namespaced=True,
        verbs=ALL,
        is_preferred=preferred,
    )


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ([], None),
        ([served("v1")], "v1"),
        ([served("v1beta1", preferred=False), served("v1")], "v1"),
        ([served("v1", group="extensions")], None),
        ([served("v1", plural="replicasets")], None),
    ],
)
def test_the_preferred_version_of_a_resource_is_migrated(
    listed: list[ServedResource], expected: str | None
) -> None:
    wanted = GroupResource(group="apps", resource="deployments")
    found = controller.served(Discovery(tuple(listed)), wanted)
    assert (found and found.version) == expected


def test_a_group_that_could_not_be_read_may_have_the_resource() -> None:
    discovery = Discovery((), {"apps/v1": "no answer", "v1": "no answer"})
    for group, expected in (("apps", True), ("", True), ("batch", False)):
        wanted = GroupResource(group=group, resource="x")
        assert controller.is_unread(discovery, wanted) == expected
