"""Claims and volumes are bound on a cluster in memory, on virtual time."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES
from controller_manager.api.json_objects import JSON
from controller_manager.api.storage.v1 import STORAGE_CLASSES
from controller_manager.client.rest.transport import Response
from controller_manager.controllers.storage.volumebinder.options import (
    VolumeBinderOptions,
)
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.clusters import make_config
from tests.controllers.hands import Before
from tests.controllers.scenarios import Scenario, scenarios
from tests.controllers.storage.objects import CrashesAt, Storage

pytestmark = pytest.mark.looptime


def config(**options: Any) -> Config:
    made = make_config(
        controllers=("persistentvolume-binder",), use_service_account_credentials=True
    )
    chosen = VolumeBinderOptions(**options)
    return replace(made, controllers={VolumeBinderOptions: chosen})


class Binding(Storage):
    """A cluster whose volumes and claims have a class that does not exist."""

    def offer(self, name: str, **spec: Any) -> None:
        self.volume(name, **{"storageClassName": "by-hand", **spec})

    def ask(
        self, name: str = "data", metadata: JSON | None = None, **spec: Any
    ) -> None:
        fields = {"storageClassName": "by-hand", **spec}
        self.claim(name, metadata=metadata, **fields)

    def ask_without_class(self) -> None:
        """Store a claim as no request can leave it."""
        self.ask()
        stored = self.stored(CLAIMS, "data")
        del stored["spec"]["storageClassName"]
        self.server.storage.collection(CLAIMS.plural).put(("default", "data"), stored)

    def add_class(
        self, name: str = "by-hand", is_default: str = "", **fields: str
    ) -> None:
        """Add a storage class with an external provisioner."""
        marks = {"storageclass.kubernetes.io/is-default-class": is_default}
        body = {"provisioner": "csi.example.com", "volumeBindingMode": "Immediate"}
        metadata = {"annotations": marks} if is_default else {}
        self.put(STORAGE_CLASSES, name, metadata=metadata, **{**body, **fields})

    def bindings(self) -> dict[str, tuple[str, str]]:
        """Return the phase and the volume of each claim."""
        return {
            each["metadata"]["name"]: (
                each["status"]["phase"],
                each["spec"].get("volumeName", ""),
            )
            for each in self.all(CLAIMS)
        }

    def bound(self, *args: Any, **named: Any) -> Any:
        """Return the names of the claims that are bound."""
        if args or named:
            return super().bound(*args, **named)
        found = self.bindings().items()
        return sorted(name for name, (phase, _) in found if phase == "Bound")

    def phases(self) -> dict[str, str]:
        """Return the phase of each volume."""
        found = self.all(PERSISTENT_VOLUMES)
        return {each["metadata"]["name"]: each["status"]["phase"] for each in found}

    def reasons(self) -> list[str]:
        """Return object, type and reason of each event, and how often it was told."""
        events = [each.split() for each in self.told(counted=True)]
        return [" ".join((*each[:3], each[-1])) for each in events]


@scenarios("storage/volumebinder")
async def test_claims_and_volumes_are_bound(scenario: Scenario) -> None:
    await scenario.play(Binding, config)


async def test_a_claim_that_only_the_api_server_shows_keeps_its_volume() -> None:
    """The cache may be older than the binding."""
    cluster = Binding()
    cluster.ask()
    cluster.offer("v", claimRef=cluster.reference())
    version = cluster.server.storage.version
    body = f'{{"metadata": {{"resourceVersion": "{version}"}}}}'.encode()
    empty = Response(200, {}, body)
    blind = Before(cluster, "GET", "/persistentvolumeclaims", lambda: empty, 99)
    path = "/persistentvolumeclaims/data"
    reads = Before(cluster, "GET", path, lambda: None, inner=blind)
    blinded = replace(config(), features=FeatureGates({"WatchListClient": False}))
    async with cluster.manager(blinded, reads):
        await asyncio.sleep(1)
        assert cluster.phases() == {"v": "Pending"}
    assert reads.seen == 1


async def test_two_managers_give_no_volume_to_two_claims() -> None:
    """Each write carries the version of its decision; one of two writes is refused."""
    cluster = Binding()
    for number in range(20):
        cluster.offer(f"v-{number:02}")
        cluster.ask(f"c-{number:02}")
    async with cluster.manager(config()), cluster.manager(config()):
        await asyncio.sleep(47)
        bound = cluster.bindings()
    assert {phase for phase, _ in bound.values()} == {"Bound"}
    assert len({volume for _, volume in bound.values()}) == 20
    assert set(cluster.phases().values()) == {"Bound"}


@pytest.mark.parametrize("stores", [False, True])
@pytest.mark.parametrize("write", range(1, 5))
async def test_a_binding_that_is_cut_off_at_any_write_is_completed(
    write: int, *, stores: bool
) -> None:
    """By the next process, with the same volume, although another would fit as well."""
    cluster = Binding()
    for each in ("v", "w"):
        cluster.offer(each)
        cluster.edit(PERSISTENT_VOLUMES, each, status={"phase": "Available"})
    cluster.ask()
    crashing = CrashesAt(cluster.transport, left=write, stores=stores)
    async with cluster.manager(config(), crashing):
        await asyncio.sleep(5)
    assert crashing.left == -1
    async with cluster.manager(config()):
        await asyncio.sleep(47)
        assert cluster.bindings() == {"data": ("Bound", "v")}
        assert cluster.phases() == {"v": "Bound", "w": "Available"}
