"""Properties of the migrator."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from controller_manager.api.json_objects import JSON
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.controllers.cluster.storageversionmigrator.workload import (
    PLURAL,
    Migrations,
)
from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties, Write
from tests.simulation.state import State

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


class MigrationProperties(Properties):
    """It succeeds only when all objects were stored again, one migration at a time."""

    controller = "storage-version-migrator-controller"
    may_write = (
        AllowedWrite(("update",), f"{PLURAL}/status", only(("status",))),
        AllowedWrite(("patch",), "*", only(("metadata", "managedFields"))),
        AllowedWrite(("patch",), "customresourcedefinitions/status"),
    )
    workload = Migrations

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._stored: defaultdict[str, set[str]] = defaultdict(set)
        """The uids of the objects that were stored again, by running migration."""

    @classmethod
    def configured(cls, config: Config) -> Config:
        """Enable the gate that is off by default."""
        overrides = {**config.features.overrides, "StorageVersionMigrator": True}
        return replace(config, features=FeatureGates(overrides))

    def after_write(self, write: Write) -> Iterator[str]:
        """Check each migration that begins or ends."""
        if write.controller != self.controller or write.after is None:
            return
        if write.target.plural != PLURAL:
            for each in self._running():
                if _resource(each).partition(".")[0] == write.target.plural:
                    uid = each["metadata"]["uid"]
                    self._stored[uid].add(write.after["metadata"]["uid"])
            return
        running = Counter(_resource(each) for each in self._running())
        if several := sorted(each for each, count in running.items() if count > 1):
            yield f"{write}: several migrations of {several} run"
        if _is(write.after, "Succeeded") and not _is(write.before or {}, "Succeeded"):
            yield from self._not_stored(write.after)

    def _running(self) -> list[JSON]:
        return [each for each in self.state.stored(PLURAL) if _is(each, "Running")]

    def _not_stored(self, migration: JSON) -> Iterator[str]:
        """Yield the objects that a migration has missed."""
        name, stored = migration["metadata"]["name"], self._stored
        version = migration.get("status", {}).get("resourceVersion")
        if not version:
            yield f"{name} has succeeded without a version"
            return
        for each in self.state.stored(_resource(migration).partition(".")[0]):
            metadata = each["metadata"]
            is_old = int(metadata["resourceVersion"]) <= int(version)
            if is_old and metadata["uid"] not in stored[migration["metadata"]["uid"]]:
                yield f"{name} has not stored {metadata['name']} again"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that every migration has ended, badly only if a write was refused."""
        del managers
        for each in self.state.stored(PLURAL):
            has_ended = _is(each, "Succeeded") or "denied" in str(each["status"])
            if not has_ended or _is(each, "Running"):
                yield f"{each['metadata']['name']} has not ended well: {each['status']}"

    def end_state(self) -> JSON:
        """Return the names of the migrations."""
        names = sorted(each["metadata"]["name"] for each in self.state.stored(PLURAL))
        return {"migrations": names}


def _resource(migration: JSON) -> str:
    wanted = migration["spec"]["resource"]
    return ".".join((wanted["resource"], wanted.get("group", ""))).rstrip(".")


def _is(migration: JSON, name: str) -> bool:
    return any(
        each["type"] == name and each["status"] == "True"
        for each in migration.get("status", {}).get("conditions", ())
    )


PROPERTIES = MigrationProperties
