"""Properties of the collector of storage versions."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from controller_manager.api.json_objects import JSON
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.controllers.cluster.storageversiongarbagecollector.workload import (
    IDENTITY,
    PLURAL,
    SYSTEM,
    UpgradingServers,
)
from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties, Write

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


class StorageVersionProperties(Properties):
    """It drops API servers that hold no lease, and nothing else."""

    controller = "storageversion-garbage-collector-controller"
    may_write = (
        AllowedWrite(("update",), f"{PLURAL}/status", only(("status",))),
        AllowedWrite(("delete",), PLURAL),
    )
    workload = UpgradingServers

    @classmethod
    def configured(cls, config: Config) -> Config:
        """Enable the gate that is off by default."""
        overrides = {**config.features.overrides, "StorageVersionAPI": True}
        return replace(config, features=FeatureGates(overrides))

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that every entry of an API server that holds a lease is kept."""
        if write.controller != self.controller or write.before is None:
            return
        before, after = (_entries(each) for each in (write.before, write.after))
        living = self._living()
        for server, entry in before.items():
            if server in living and after.get(server) != entry:
                yield f"{write}: {server} holds a lease"
            if server in after and after[server] != entry:
                yield f"{write}: the entry of {server} has changed"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that only API servers with a lease are left, and the version."""
        del managers
        living = self._living()
        for version in self.state.stored(PLURAL):
            name, status = version["metadata"]["name"], version["status"]
            entries = _entries(version)
            if gone := sorted(entries.keys() - living):
                yield f"the storage version {name} still has {gone}"
            if not entries:
                yield f"the storage version {name} has no API server"
            versions = {each["encodingVersion"] for each in entries.values()}
            common = versions.pop() if len(versions) == 1 else None
            if status.get("commonEncodingVersion") != common:
                yield f"the common version of {name} is not {common}"

    def end_state(self) -> JSON:
        """Return the API servers of each storage version."""
        return {
            each["metadata"]["name"]: sorted(_entries(each))
            for each in self.state.stored(PLURAL)
        }

    def _living(self) -> set[str]:
        return {
            each["metadata"]["name"]
            for each in self.state.stored("leases", SYSTEM)
            if each["metadata"].get("labels") == IDENTITY
        }


def _entries(version: JSON | None) -> dict[str, JSON]:
    listed = (version or {}).get("status", {}).get("storageVersions", ())
    return {each["apiServerID"]: each for each in listed}


PROPERTIES = StorageVersionProperties
