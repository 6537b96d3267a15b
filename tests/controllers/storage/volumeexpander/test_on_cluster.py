"""Growing claims are handed to their resizers, in memory."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES
from controller_manager.api.json_objects import JSON
from controller_manager.api.storage.v1 import STORAGE_CLASSES
from controller_manager.client.rest.errors import TransportError
from controller_manager.control.volumes import StorageOperationMetrics
from controller_manager.controllers.storage.volumeexpander import controller
from tests.clusters import make_config
from tests.controllers.hands import Before
from tests.controllers.responses import refusal
from tests.controllers.storage.objects import SIZE, Storage

pytestmark = pytest.mark.looptime

ALIAS = "persistentvolume-expander"
CONFIG = make_config(controllers=(ALIAS,))
CONFINED = make_config(controllers=(ALIAS,), use_service_account_credentials=True)
CLAIM = "/api/v1/namespaces/default/persistentvolumeclaims/disk/status"
VOLUME = "/api/v1/persistentvolumes/disk"
WAITING = (
    "Waiting for user to (re-)start a pod to finish file system resize of volume on "
    "node."
)
FLEX: JSON = {"flexVolume": {"driver": "example.com/flex"}}
RESIZER = "volume.kubernetes.io/storage-resizer"
MARK = "volume.alpha.kubernetes.io/pre-resize-capacity"
LARGER = {"storage": "2Gi"}
UNTOUCHED: JSON = {
    "claim": None,
    "conditions": [],
    "allocated": None,
    "states": None,
    "has": SIZE,
    "volume": None,
    "size": SIZE,
}
EXPANDED: JSON = {
    **UNTOUCHED,
    "claim": {RESIZER: "example.com/flex"},
    "allocated": LARGER,
    "has": LARGER,
    "size": LARGER,
}
PREPARED: JSON = {
    **EXPANDED,
    "conditions": [("Resizing", ""), ("FileSystemResizePending", WAITING)],
    "states": {"storage": "NodeResizePending"},
    "has": SIZE,
    "volume": {MARK: "1Gi"},
}


def add_disk(
    cluster: Storage, source: JSON | None = None, mode: str = "Filesystem"
) -> None:
    """Add the claim "disk", bound to a volume of the same name, both of 1 GiB."""
    growing: JSON = {"provisioner": "example.com/nobody", "allowVolumeExpansion": True}
    cluster.put(STORAGE_CLASSES, "growing", **growing)
    cluster.bound("disk", source, storageClassName="growing", volumeMode=mode)


async def ask_for(cluster: Storage, size: str) -> None:
    resources = {"requests": {"storage": size}}
    cluster.edit(CLAIMS, "disk", spec={"resources": resources})
    await asyncio.sleep(1)


def state(cluster: Storage) -> JSON:
    """Return the fields of claim and volume that the expander changes."""
    claim = cluster.stored(CLAIMS, "disk")
    volume = cluster.stored(PERSISTENT_VOLUMES, "disk")
    status = claim["status"]
    conditions = status.get("conditions", ())
    return {
        "claim": claim["metadata"].get("annotations"),
        "conditions": [(each["type"], each.get("message", "")) for each in conditions],
        "allocated": status.get("allocatedResources"),
        "states": status.get("allocatedResourceStatuses"),
        "has": status["capacity"],
        "volume": volume["metadata"].get("annotations"),
        "size": volume["spec"]["capacity"],
    }


def told(reason: str, message: str, times: int = 1) -> str:
    return f"disk {reason} [volume_expand]: {message} x{times}"


async def test_the_resizer_of_a_driver_expands(cluster: Storage) -> None:
    """An event says so; a smaller request causes no event."""
    add_disk(cluster)
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(2)
        assert cluster.told() == []
        await ask_for(cluster, "3Gi")
        await ask_for(cluster, "2Gi")
        await asyncio.sleep(1)
    message = "waiting for an external controller to expand this PVC"
    assert cluster.told(counted=True) == [told("Normal ExternalExpanding", message)]
    assert (recording.writes, state(cluster)) == ([], UNTOUCHED)


async def test_the_resizer_of_a_migrated_plugin_is_named() -> None:
    """The name is written once; upstream's role is enough."""
    cluster = Storage(rbac=True)
    add_disk(cluster, {"awsElasticBlockStore": {"volumeID": "vol-1"}})
    async with cluster.confined_manager(CONFINED) as recording:
        await ask_for(cluster, "2Gi")
        await ask_for(cluster, "3Gi")
        await asyncio.sleep(1)
    message = (
        "CSI migration enabled for kubernetes.io/aws-ebs; "
        "waiting for external resizer to expand the pvc"
    )
    assert cluster.told(counted=True) == [told("Normal ExternalExpanding", message, 2)]
    assert [(each.method, each.path) for each in recording.writes] == [("PATCH", CLAIM)]
    assert state(cluster) == {**UNTOUCHED, "claim": {RESIZER: "ebs.csi.aws.com"}}


async def test_a_kubelet_expands_a_flex_volume() -> None:
    """The volume has its former capacity as a mark until then."""
    cluster = Storage(rbac=True)
    add_disk(cluster, FLEX)
    async with cluster.confined_manager(CONFINED) as recording:
        await ask_for(cluster, "2Gi")
        assert state(cluster) == PREPARED
        done: JSON = {
            "capacity": LARGER,
            "allocatedResourceStatuses": None,
            "conditions": [],
        }
        cluster.edit(CLAIMS, "disk", status=done)
        await asyncio.sleep(2)
        assert state(cluster) == EXPANDED
    assert cluster.told() == []
    paths = [each.path for each in recording.writes]
    assert paths == [CLAIM, VOLUME, CLAIM, VOLUME, VOLUME]


async def test_a_volume_of_another_claim_is_not_changed(cluster: Storage) -> None:
    """The sync is retried until the volume belongs to the claim."""
    add_disk(cluster, FLEX)
    own = cluster.reference("disk")
    other = {"claimRef": {"uid": "another"}}
    cluster.edit(PERSISTENT_VOLUMES, "disk", spec=other)
    async with cluster.manager(CONFIG) as recording:
        await ask_for(cluster, "2Gi")
        await asyncio.sleep(1)
        assert (cluster.told(), recording.writes) == ([], [])
        cluster.edit(PERSISTENT_VOLUMES, "disk", spec={"claimRef": own})
        await asyncio.sleep(10)
        assert len(recording.writes) == 4


@pytest.mark.parametrize(
    ("code", "reason", "messages"),
    [
        (403, "Forbidden", ["error updating pv for pvc default/disk: no"]),
        (409, "Conflict", []),
    ],
)
async def test_a_failed_expansion_continues_later(
    cluster: Storage,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    reason: str,
    messages: list[str],
) -> None:
    """It continues where it stopped; a refusal causes an event, a conflict does not."""
    registry = CollectorRegistry()
    metrics = StorageOperationMetrics(registry)
    monkeypatch.setattr(controller, "StorageOperationMetrics", lambda _: metrics)
    add_disk(cluster, FLEX)
    error = refusal(code, reason)
    async with cluster.manager(CONFIG, Before(cluster, "PATCH", VOLUME, lambda: error)):
        await ask_for(cluster, "2Gi")
        await asyncio.sleep(2)
    events = [told("Warning VolumeResizeFailed", each) for each in messages]
    assert (cluster.told(counted=True), state(cluster)) == (events, PREPARED)
    labels = {
        "volume_plugin": "example.com/flex",
        "operation_name": "expand_volume",
        "migrated": "false",
    }
    for status in ("fail-unknown", "success"):
        name = "storage_operation_duration_seconds_count"
        assert registry.get_sample_value(name, {**labels, "status": status}) == 1


@pytest.mark.parametrize("mode", ["Filesystem", "Block"])
@pytest.mark.parametrize("patches", range(5))
async def test_an_expansion_that_ends_anywhere_is_finished_by_the_next_process(
    cluster: Storage, mode: str, patches: int
) -> None:
    """A volume of blocks needs no kubelet: it has no file system."""
    add_disk(cluster, FLEX, mode)

    def ends() -> None:
        if transport.seen > patches:
            raise TransportError

    transport = Before(cluster, "PATCH", "", ends, 99)
    async with cluster.manager(CONFIG, transport):
        await ask_for(cluster, "2Gi")
    async with cluster.manager(CONFIG):
        await asyncio.sleep(10)
    assert state(cluster) == (EXPANDED if mode == "Block" else PREPARED)
