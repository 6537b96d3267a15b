"""Objects are stored again, on a cluster in memory."""

import asyncio
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
from controller_manager.controllers.cluster.storageversionmigrator import (
    conditions,
    controller,
)
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import make_config
from tests.controllers.custom_resources import (
    ANYTHING,
    DEFINITIONS,
    WIDGETS,
    definition,
)
from tests.controllers.hands import Before, Hands
from tests.controllers.responses import refusal
from tests.controllers.scenarios import Scenario, scenarios

WIDGET: Final = "widgets.example.com"


def config(*, enabled: bool = True) -> Config:
    made = make_config(controllers=("svm", "ttl"), use_service_account_credentials=True)
    gates = FeatureGates({"StorageVersionMigrator": enabled})
    return replace(made, features=gates)


class Migrating(Hands):
    def secrets(self, *names: str) -> None:
        for name in names:
            self.put(SECRETS, name, type="Opaque")

    def request(
        self, name: str = "a", resource: str = "secrets", group: str = ""
    ) -> None:
        wanted = {"resource": resource, **({"group": group} if group else {})}
        self.put(STORAGE_VERSION_MIGRATIONS, name, spec={"resource": wanted})

    def conditions(self, name: str = "a") -> list[JSON]:
        status = self.stored(STORAGE_VERSION_MIGRATIONS, name).get("status", {})
        return list(status.get("conditions", ()))

    def states(self, name: str = "a") -> dict[str, str]:
        return {each["type"]: each["status"] for each in self.conditions(name)}

    def reasons(self) -> list[str]:
        return [each["reason"] for each in self.conditions()]

    def failure(self) -> str:
        """Return the message of the migration "a", which has failed."""
        return str(self.conditions()[1]["message"])

    async def define_widgets(self, *stored: str) -> None:
        """Define widgets, of which there is one, once stored in these versions."""
        body = msgspec.json.encode(definition())
        await self.client.create_json(DEFINITIONS, "", body)
        if stored:
            self.put(WIDGETS, "w")
            await self.change_definition("status", storedVersions=list(stored))

    async def undefine_widgets(self) -> None:
        await self.client.delete(DEFINITIONS, "", WIDGET)

    async def change_definition(self, part: str = "", **fields: Any) -> None:
        patch = {part or "spec": fields}
        await self.client.patch(DEFINITIONS, "", WIDGET, patch, PatchType.MERGE, part)

    def migrated(self) -> tuple[str, str, str, list[str]]:
        """Return the definition's condition and its stored versions."""
        status = self.stored(DEFINITIONS, WIDGET)["status"]
        found = [e for e in status["conditions"] if e["type"] == "StorageMigrating"]
        state, reason, message = ("", "", "")
        for each in found:
            state, reason, message = each["status"], each["reason"], each["message"]
        return state, reason, message, status["storedVersions"]


@pytest.mark.looptime
@scenarios("cluster/storageversionmigrator")
async def test_objects_are_stored_again(scenario: Scenario) -> None:
    await scenario.play(Migrating, config)


@pytest.mark.looptime
async def test_a_definition_that_changes_meanwhile_keeps_its_versions() -> None:
    """Objects may be stored in another version by now; and once is not enough."""
    cluster = Migrating()
    await cluster.define_widgets("v0", "v1")
    old = {"name": "v0", "schema": {"openAPIV3Schema": ANYTHING}}
    versions = [*definition()["spec"]["versions"], old]
    await cluster.change_definition(versions=versions)
    names = {"shortNames": ["wdg"]}
    changes = Before(
        cluster, "PATCH", "/w", lambda: cluster.change_definition(names=names), 99
    )
    later = refusal(503, "", "later")
    path = f"/{WIDGET}/status"
    refuses = Before(
        cluster, "PATCH", path, lambda: later if ended() else None, 99, changes
    )
    refused: list[int] = []

    def ended() -> bool:
        if cluster.migrated()[1] == "MigrationRunning" and len(refused) < 2:
            refused.append(1)
            return True
        return False

    cluster.request("a", "widgets", "example.com")
    async with cluster.manager(config(), refuses):
        await asyncio.sleep(60)
    assert cluster.states() == {"Running": "False", "Succeeded": "True"}
    assert len(refused) == 2
    *_, message, stored = cluster.migrated()
    assert "generation mismatch" in message
    assert stored == ["v0", "v1"]


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
def test_preferred_versions(listed: list[ServedResource], expected: str | None) -> None:
    wanted = GroupResource(group="apps", resource="deployments")
    found = controller.served(Discovery(tuple(listed)), wanted)
    assert (found and found.version) == expected


def test_a_group_that_could_not_be_read_may_have_the_resource() -> None:
    discovery = Discovery((), {"apps/v1": "no answer", "v1": "no answer"})
    for group, expected in (("apps", True), ("", True), ("batch", False)):
        wanted = GroupResource(group=group, resource="x")
        assert controller.is_unread(discovery, wanted) == expected
