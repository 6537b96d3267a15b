"""Growing claims are handed to their resizers, in memory."""

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES
from controller_manager.api.json_objects import JSON
from controller_manager.api.storage.v1 import STORAGE_CLASSES
from controller_manager.control.volumes import StorageOperationMetrics
from controller_manager.controllers.storage.volumeexpander import controller
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers.hands import Before
from tests.controllers.responses import refusal
from tests.controllers.scenarios import Scenario, scenarios
from tests.controllers.storage.objects import Storage

pytestmark = pytest.mark.looptime

VOLUME = "/api/v1/persistentvolumes/disk"
FLEX: JSON = {"flexVolume": {"driver": "example.com/flex"}}
WAITS: JSON = {"storage": "NodeResizePending"}


def config() -> Config:
    return make_config(
        controllers=("persistentvolume-expander",), use_service_account_credentials=True
    )


class Disks(Storage):
    def add_disk(self, source: JSON | None = None, mode: str = "Filesystem") -> None:
        """Add the claim "disk", bound to a volume of the same name, both of 1 GiB."""
        growing: JSON = {"provisioner": "x.com/nobody", "allowVolumeExpansion": True}
        self.put(STORAGE_CLASSES, "growing", **growing)
        self.bound("disk", source, storageClassName="growing", volumeMode=mode)

    def ask(self, size: str) -> None:
        resources = {"requests": {"storage": size}}
        self.edit(CLAIMS, "disk", spec={"resources": resources})

    def state(self) -> JSON:
        """Return the fields of claim and volume that the expander changes."""
        claim = self.stored(CLAIMS, "disk")
        volume = self.stored(PERSISTENT_VOLUMES, "disk")
        status: Any = claim["status"]
        conditions = status.get("conditions", ())
        return {
            "claim": claim["metadata"].get("annotations"),
            "conditions": [(it["type"], it.get("message", "")) for it in conditions],
            "allocated": status.get("allocatedResources"),
            "states": status.get("allocatedResourceStatuses"),
            "has": status["capacity"],
            "volume": volume["metadata"].get("annotations"),
            "size": volume["spec"]["capacity"],
        }


@pytest.fixture
async def cluster() -> Disks:
    return Disks()


@scenarios("storage/volumeexpander")
async def test_growing_claims_are_handed_on(scenario: Scenario) -> None:
    await scenario.play(Disks, config)


@pytest.mark.parametrize(
    ("code", "reason", "messages"),
    [
        (403, "Forbidden", ["error updating pv for pvc default/disk: no"]),
        (409, "Conflict", []),
    ],
)
async def test_a_failed_expansion_continues_later(
    cluster: Disks,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    reason: str,
    messages: list[str],
) -> None:
    """It continues where it stopped; a refusal causes an event, a conflict does not."""
    registry = CollectorRegistry()
    metrics = StorageOperationMetrics(registry)
    monkeypatch.setattr(controller, "StorageOperationMetrics", lambda _: metrics)
    cluster.add_disk(FLEX)
    error = refusal(code, reason)
    async with cluster.manager(
        config(), Before(cluster, "PATCH", VOLUME, lambda: error)
    ):
        cluster.ask("2Gi")
        await asyncio.sleep(1)
        await asyncio.sleep(2)
    events = [
        f"disk Warning VolumeResizeFailed [volume_expand]: {each} x1"
        for each in messages
    ]
    assert (cluster.told(counted=True), cluster.state()["states"]) == (events, WAITS)
    labels = {
        "volume_plugin": "example.com/flex",
        "operation_name": "expand_volume",
        "migrated": "false",
    }
    for status in ("fail-unknown", "success"):
        name = "storage_operation_duration_seconds_count"
        assert registry.get_sample_value(name, {**labels, "status": status}) == 1
