"""API servers of another version of Kubernetes start and end, as in upgrades."""

import asyncio
import random
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


SYSTEM: Final = "kube-system"
PLURAL: Final = "storageversions"
RESOURCES: Final = ("apps.deployments", "batch.jobs")
IDENTITY: Final = {"apiserver.kubernetes.io/identity": "kube-apiserver"}

_FIRST: Final = ("apiserver-0", "apiserver-1")


class UpgradingServers(Workload):
    """API servers that hold leases, and say in which versions they store objects."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"storage versions {world.seed}")
        self._started = 0

    def create_objects(self, namespace: str) -> None:
        if namespace == NAMESPACE:
            for _ in _FIRST:
                self._start()

    def _start(self) -> None:
        """Start an API server; each has a name of its own."""
        name = f"apiserver-{self._started}"
        self._started += 1
        lease = {"metadata": {"name": name, "labels": IDENTITY}}
        self.world.server.objects.create(self.world.kind("leases"), SYSTEM, lease)
        for resource in RESOURCES:
            self._register(resource, name, self._rng.choice(("v1", "v2")))

    def _register(self, resource: str, server: str, version: str) -> None:
        """Add an API server to a storage version, as API servers do."""
        if self.world.find(PLURAL, "", resource) is None:
            kind = self.world.kind(PLURAL)
            obj = {"metadata": {"name": resource}}
            self.world.server.objects.create(kind, "", obj)
        found = self.world.find(PLURAL, "", resource)
        assert found is not None
        entry = {
            "apiServerID": server,
            "encodingVersion": version,
            "decodableVersions": ["v1", "v2"],
        }
        self.world.change(PLURAL, found, lambda obj: _add(obj, entry), "status")

    async def use(self, operations: int) -> None:
        for _ in range(operations):
            await asyncio.sleep(self._rng.uniform(1, 60))
            leases = [
                each
                for each in self.world.stored("leases", SYSTEM)
                if each["metadata"].get("labels") == IDENTITY
            ]
            if len(leases) < 2 or self._rng.random() < 0.5:
                self._start()
            else:
                self.world.delete("leases", self._rng.choice(leases))


def _add(version: JSON, entry: JSON) -> None:
    entries = version["status"].setdefault("storageVersions", [])
    entries.append(entry)
    versions = {each["encodingVersion"] for each in entries}
    version["status"].pop("commonEncodingVersion", None)
    if len(versions) == 1:
        version["status"]["commonEncodingVersion"] = versions.pop()
