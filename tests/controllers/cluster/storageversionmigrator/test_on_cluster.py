"""Objects are stored again, on a cluster in memory."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import msgspec
import pytest

from controller_manager.api.core.secrets import SECRETS
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import Condition, ObjectMeta
from controller_manager.api.storagemigration.v1beta1 import (
    STORAGE_VERSION_MIGRATIONS,
    GroupResource,
    StorageVersionMigration,
    StorageVersionMigrationStatus,
)
from controller_manager.client.discovery.resources import Discovery, ServedResource
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.transport import Response
from controller_manager.controllers.cluster.storageversionmigrator import (
    conditions,
    controller,
)
from controller_manager.options.gates import FeatureGates
from tests.clusters import Write, make_config
from tests.controllers.custom_resources import (
    ANYTHING,
    DEFINITIONS,
    WIDGETS,
    definition,
)
from tests.controllers.hands import Before, Hands
from tests.controllers.responses import refusal

pytestmark = pytest.mark.looptime

CONFIG: Final = make_config(
    controllers=("svm", "ttl"), use_service_account_credentials=True
)
ENABLED: Final = replace(
    CONFIG, features=FeatureGates({"StorageVersionMigrator": True})
)
WIDGET: Final = "widgets.example.com"
SUCCEEDED: Final = {"Running": "False", "Succeeded": "True"}
FAILED: Final = {"Running": "False", "Failed": "True"}


class Migrating(Hands):
    def secrets(self, *names: str) -> None:
        for name in names:
            self.put(SECRETS, name, type="Opaque")

    def request(
        self, name: str = "a", resource: str = "secrets", group: str = ""
    ) -> None:
        wanted = {"resource": resource, **({"group": group} if group else {})}
        self.put(STORAGE_VERSION_MIGRATIONS, name, spec={"resource": wanted})

    def status(self, name: str = "a") -> JSON:
        return dict(self.stored(STORAGE_VERSION_MIGRATIONS, name).get("status", {}))

    def states(self, name: str = "a") -> dict[str, str]:
        found = self.status(name).get("conditions", ())
        return {each["type"]: each["status"] for each in found}

    def failure(self) -> str:
        """Return the message of the migration "a", which has failed."""
        assert self.states() == FAILED
        (_, failed) = self.status()["conditions"]
        return str(failed["message"])

    async def define_widgets(self, *stored: str) -> None:
        """Define widgets, of which there is one, once stored in these versions."""
        body = msgspec.json.encode(definition())
        await self.client.create_json(DEFINITIONS, "", body)
        if stored:
            self.put(WIDGETS, "w")
            await self.change_definition("status", storedVersions=list(stored))

    async def change_definition(self, part: str = "", **fields: Any) -> None:
        patch = {part or "spec": fields}
        await self.client.patch(DEFINITIONS, "", WIDGET, patch, PatchType.MERGE, part)

    def migrated(self) -> tuple[JSON, list[str]]:
        """Return the definition's condition and its stored versions."""
        status = self.stored(DEFINITIONS, WIDGET)["status"]
        found = [e for e in status["conditions"] if e["type"] == "StorageMigrating"]
        return (found[0] if found else {}), status["storedVersions"]

    def before(
        self, name: str, act: Callable[[], Any], method: str = "PATCH", times: int = 99
    ) -> Before:
        return Before(self, method, name, act, times)


@pytest.fixture
async def cluster() -> Migrating:
    return Migrating()


def paths(writes: list[Write]) -> list[str]:
    return [
        f"{each.method} {each.path.rpartition('/v1')[2].removeprefix('beta1')}"
        for each in writes
    ]


def rewritten(writes: list[Write]) -> list[str]:
    return [
        each.path.rpartition("/")[2]
        for each in writes
        if each.method == "PATCH" and not each.path.endswith("/status")
    ]


async def test_all_objects_of_a_resource_are_stored_again() -> None:
    cluster = Migrating(rbac=True)
    cluster.secrets("x", "y")
    async with cluster.confined_manager(ENABLED) as recording:
        cluster.request()
        await asyncio.sleep(5)
    status = "PUT /storageversionmigrations/a/status"
    assert paths(recording.writes) == [
        status,
        status,
        "PATCH /namespaces/default/secrets/x",
        "PATCH /namespaces/default/secrets/y",
        status,
        status,
    ]
    for each in recording.writes[2:4]:
        body = json.loads(each.body)
        assert set(body) == {"apiVersion", "kind", "metadata"}
        assert set(body["metadata"]) == {"uid", "resourceVersion"}
    assert cluster.states() == SUCCEEDED
    assert [each["reason"] for each in cluster.status()["conditions"]] == [
        "MigrationCompleted",
        "StorageVersionMigrationSucceeded",
    ]


async def test_objects_that_are_newer_than_the_migration_are_left_alone(
    cluster: Migrating,
) -> None:
    cluster.secrets("old")

    def add_another() -> None:
        if "resourceVersion" in cluster.status() and cluster.states() != SUCCEEDED:
            cluster.secrets("new")

    cluster.request()
    transport = cluster.before("/old", add_another)
    async with cluster.manager(ENABLED, transport) as recording:
        await asyncio.sleep(5)
    assert cluster.names(SECRETS) == ["new", "old"]
    assert cluster.states() == SUCCEEDED
    assert rewritten(recording.writes) == ["old"]


async def test_migrations_of_one_resource_run_one_after_the_other(
    cluster: Migrating,
) -> None:
    cluster.secrets("x")
    freed = asyncio.Event()
    async with cluster.manager(ENABLED, cluster.before("/x", freed.wait)):
        cluster.request("b")
        await asyncio.sleep(2)
        cluster.request("a")
        cluster.request("other", "configmaps")
        await asyncio.sleep(5)
        assert cluster.states("b") == {"Running": "True"}
        assert cluster.states("a") == {}
        assert cluster.states("other") == SUCCEEDED
        freed.set()
        await asyncio.sleep(10)
    assert cluster.states("a") == cluster.states("b") == SUCCEEDED


async def test_a_migration_that_is_deleted_lets_the_next_one_run(
    cluster: Migrating,
) -> None:
    cluster.secrets("x", "y")
    freed = asyncio.Event()
    transport = cluster.before("/x", freed.wait)
    async with cluster.manager(ENABLED, transport) as recording:
        cluster.request("a")
        await asyncio.sleep(2)
        cluster.request("b")
        cluster.remove(STORAGE_VERSION_MIGRATIONS, "a")
        await asyncio.sleep(2)
        assert cluster.states("b") == {"Running": "True"}
        freed.set()
        await asyncio.sleep(10)
    assert cluster.states("b") == SUCCEEDED
    assert rewritten(recording.writes).count("y") == 1


async def test_an_object_that_changes_or_goes_meanwhile_needs_nothing(
    cluster: Migrating,
) -> None:
    cluster.secrets("changed", "gone", "same")
    labels = {"labels": {"changed": "yes"}}
    changes = cluster.before(
        "/changed", lambda: cluster.edit(SECRETS, "changed", metadata=labels)
    )
    goes = cluster.before("/gone", lambda: cluster.remove(SECRETS, "gone"))
    cluster.request()
    transport = replace(goes, inner=changes)
    async with cluster.manager(ENABLED, transport) as recording:
        await asyncio.sleep(5)
    assert (changes.seen, transport.seen) == (1, 1)
    assert cluster.states() == SUCCEEDED
    assert sorted(rewritten(recording.writes)) == ["changed", "gone", "same"]


@pytest.mark.parametrize("code", [401, 429, 500, 502, 503, 504])
async def test_a_failure_that_may_pass_is_retried(
    cluster: Migrating, code: int
) -> None:
    cluster.secrets("x")
    fails = cluster.before("/x", lambda: refusal(code, "", "not now"))
    cluster.request()
    async with cluster.manager(ENABLED, fails):
        await asyncio.sleep(5)
        assert cluster.states() == {"Running": "True"}
        fails.times = 0
        await asyncio.sleep(60)
    assert cluster.states() == SUCCEEDED


@pytest.mark.parametrize("code", [400, 403, 404, 422])
async def test_a_refusal_fails_the_migration(cluster: Migrating, code: int) -> None:
    cluster.secrets("x")
    fails = cluster.before("/x", lambda: refusal(code, "", "no way"))
    cluster.request()
    async with cluster.manager(ENABLED, fails):
        await asyncio.sleep(5)
    assert cluster.failure() == "migration encountered unhandled error: no way"


async def test_a_resource_may_appear_within_a_minute(cluster: Migrating) -> None:
    """Its definition may be created just after the request."""
    cluster.request("a", "widgets", "example.com")
    async with cluster.manager(ENABLED):
        await asyncio.sleep(30)
        assert cluster.states() == {"Running": "True"}
        await cluster.define_widgets()
        await asyncio.sleep(60)
    assert cluster.states() == SUCCEEDED
    after, stored = cluster.migrated()
    assert "generation mismatch" in after["message"]
    assert stored == ["v1"]


@pytest.mark.parametrize(
    ("resource", "group", "message"),
    [
        ("widgets", "example.com", "resource does not exist in discovery"),
        (
            "subjectaccessreviews",
            "authorization.k8s.io",
            (
                'resource "authorization.k8s.io/v1, Resource=subjectaccessreviews" '
                "does not support discovery operations: [update patch list]"
            ),
        ),
    ],
)
async def test_a_resource_that_is_not_served_or_cannot_be_patched_fails(
    cluster: Migrating, resource: str, group: str, message: str
) -> None:
    cluster.request("a", resource, group)
    async with cluster.manager(ENABLED):
        await asyncio.sleep(180)
    assert cluster.failure() == message


async def test_a_resource_that_is_served_no_more_fails(cluster: Migrating) -> None:
    await cluster.define_widgets("v1")
    fails = cluster.before("/w", lambda: refusal(503, "", "not now"))
    cluster.request("a", "widgets", "example.com")
    async with cluster.manager(ENABLED, fails):
        await asyncio.sleep(90)
        assert cluster.states() == {"Running": "True"}
        await cluster.client.delete(DEFINITIONS, "", WIDGET)
        await asyncio.sleep(180)
    assert cluster.failure() == (
        "migration encountered unhandled error: unable to obtain GVR from discovery"
    )


async def test_an_object_whose_version_is_no_number_fails_the_migration(
    cluster: Migrating,
) -> None:
    metadata = {"name": "x", "namespace": "default", "resourceVersion": "abc"}
    page = {"metadata": {"resourceVersion": "9"}, "items": [{"metadata": metadata}]}
    body = Response(200, {}, msgspec.json.encode(page))
    cluster.request()
    lists = cluster.before("/secrets", lambda: body, "GET")
    async with cluster.manager(ENABLED, lists):
        await asyncio.sleep(5)
    assert cluster.failure() == (
        "migration encountered unhandled error: "
        "resource version is not well formed: abc"
    )


async def test_the_definition_of_a_custom_resource_says_so(cluster: Migrating) -> None:
    await cluster.define_widgets("v0", "v1")
    seen: list[tuple[JSON, list[str]]] = []
    cluster.request("a", "widgets", "example.com")
    looks = cluster.before("/w", lambda: seen.append(cluster.migrated()))
    async with cluster.manager(ENABLED, looks) as recording:
        await asyncio.sleep(5)
    assert cluster.states() == SUCCEEDED
    assert rewritten(recording.writes) == ["w"]
    ((during, stored),) = seen
    assert (during["status"], during["reason"]) == ("True", "MigrationRunning")
    assert during["message"] == "Migration a is running"
    assert stored == ["v0", "v1"]
    after, stored = cluster.migrated()
    assert (after["status"], after["reason"]) == ("False", "MigrationSucceeded")
    assert after["message"] == (
        "The migration has succeeded and the stored versions have been updated"
    )
    assert stored == ["v1"]


async def test_a_definition_that_changes_meanwhile_keeps_its_versions(
    cluster: Migrating,
) -> None:
    """Objects may be stored in another version by now; and once is not enough."""
    await cluster.define_widgets("v0", "v1")
    old = {"name": "v0", "schema": {"openAPIV3Schema": ANYTHING}}
    versions = [*definition()["spec"]["versions"], old]
    await cluster.change_definition(versions=versions)
    names = {"shortNames": ["wdg"]}
    changes = cluster.before("/w", lambda: cluster.change_definition(names=names))
    refuses = cluster.before(
        f"/{WIDGET}/status", lambda: refusal(503, "", "later") if ended() else None
    )
    refused: list[int] = []

    def ended() -> bool:
        during, _ = cluster.migrated()
        if during.get("reason") == "MigrationRunning" and len(refused) < 2:
            refused.append(1)
            return True
        return False

    cluster.request("a", "widgets", "example.com")
    async with cluster.manager(ENABLED, replace(refuses, inner=changes)):
        await asyncio.sleep(60)
    assert cluster.states() == SUCCEEDED
    assert len(refused) == 2
    after, stored = cluster.migrated()
    assert "generation mismatch" in after["message"]
    assert stored == ["v0", "v1"]


async def test_after_a_failure_a_definition_keeps_its_versions(
    cluster: Migrating,
) -> None:
    """Upstream drops those that are not stored any more, although they may be."""
    await cluster.define_widgets("v0", "v1")
    fails = cluster.before("/w", lambda: refusal(422, "", "no way"))
    cluster.request("a", "widgets", "example.com")
    async with cluster.manager(ENABLED, fails):
        await asyncio.sleep(5)
    assert cluster.states() == FAILED
    after, stored = cluster.migrated()
    assert (after["reason"], stored) == ("MigrationFailed", ["v0", "v1"])


async def test_a_second_migration_of_a_custom_resource_is_like_the_first() -> None:
    """The definition never loses its stored versions; in one role."""
    cluster = Migrating(rbac=True)
    await cluster.define_widgets()
    async with cluster.confined_manager(ENABLED):
        for name in "ab":
            cluster.request(name, "widgets", "example.com")
            await asyncio.sleep(5)
            assert cluster.states(name) == SUCCEEDED
            after, stored = cluster.migrated()
            assert (after["reason"], stored) == ("MigrationSucceeded", ["v1"])


async def test_a_manager_that_starts_goes_on(cluster: Migrating) -> None:
    cluster.secrets("x", "y")
    fails = cluster.before("/y", lambda: refusal(503, "", "not now"))
    cluster.request()
    async with cluster.manager(ENABLED, fails):
        await asyncio.sleep(5)
    version = cluster.status()["resourceVersion"]
    async with cluster.manager(ENABLED) as recording:
        await asyncio.sleep(5)
    assert cluster.states() == SUCCEEDED
    assert cluster.status()["resourceVersion"] == version
    assert "y" in rewritten(recording.writes)


async def test_without_its_gate_it_does_not_run(cluster: Migrating) -> None:
    """The gate is off by default."""
    cluster.request()
    async with cluster.manager(CONFIG):
        await asyncio.sleep(60)
    assert cluster.states() == {}


def migration(name: str, created: int, *true: str) -> StorageVersionMigration:
    found = tuple(Condition(type=each, status="True") for each in true)
    return StorageVersionMigration(
        metadata=ObjectMeta(
            name=name, creation_timestamp=f"2026-01-01T00:00:0{created}Z", generation=3
        ),
        status=StorageVersionMigrationStatus(conditions=found or None),
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
    def states(of: StorageVersionMigration) -> tuple[bool, ...]:
        return conditions.is_running(of), conditions.has_ended(of)

    begun = conditions.running(migration("a", 1), "t1")
    ended = conditions.failed(begun, "no way", "t2")
    done = conditions.completed(ended, "t3")
    found = [states(each) for each in (begun, ended, done)]
    assert found == [(True, False), (True, True), (False, True)]
    assert not conditions.has_succeeded(ended)
    (running, failed) = done.status.conditions or ()
    assert (running.type, running.status) == ("Running", "False")
    assert (running.last_transition_time, running.observed_generation) == ("t3", 3)
    assert (failed.type, failed.message) == ("Failed", "no way")
    assert failed.last_transition_time == "t2"


VERSIONS: Final = {
    "1": True,
    "18446744073709551616": True,
    **dict.fromkeys(("", "0", "01", "-1", "abc", "٣"), False),
}


@pytest.mark.parametrize(("version", "expected"), VERSIONS.items())
def test_a_version_is_a_number(version: str, expected: bool) -> None:
    assert controller.is_comparable(version) == expected


def served(
    version: str, group: str = "apps", plural: str = "deployments", *, best: bool = True
) -> ServedResource:
    verbs = frozenset(("get", "list", "update", "patch"))
    names = (group, version, plural, "Deployment")
    return ServedResource(*names, namespaced=True, verbs=verbs, is_preferred=best)


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        ([], None),
        ([served("v1")], "v1"),
        ([served("v1beta1", best=False), served("v1")], "v1"),
        ([served("v1", "extensions")], None),
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
