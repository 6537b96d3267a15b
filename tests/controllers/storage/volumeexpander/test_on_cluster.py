"""Growing claims are handed to their resizers, in memory."""

import asyncio

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import EVENTS
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.errors import TransportError
from controller_manager.client.rest.transport import Request, Response
from controller_manager.control.volumes import StorageOperationMetrics
from controller_manager.controllers.storage.volumeexpander import controller
from controller_manager.devcluster.inmemory import InMemoryTransport
from tests.clusters import TOKEN, Cluster, RecordingTransport, make_config

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


SOURCES: JSON = {
    "flex": {"flexVolume": {"driver": "example.com/flex"}},
    "ebs": {"awsElasticBlockStore": {"volumeID": "vol-1"}},
    "csi": {"csi": {"driver": "csi.example.com", "volumeHandle": "1"}},
}


async def add_claim(cluster: Cluster, source: str, mode: str = "Filesystem") -> None:
    """Create the claim "disk", bound to a volume of the same name, both of 1 GiB."""
    storage_class = {"provisioner": "example.com/nobody", "allowVolumeExpansion": True}
    cluster.add("StorageClass", "growing", api="storage.k8s.io/v1", **storage_class)
    both = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "growing",
        "volumeMode": mode,
    }
    size = {"storage": "1Gi"}
    spec: JSON = {**both, "resources": {"requests": size}, "volumeName": "disk"}
    status = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    cluster.add("PersistentVolumeClaim", "disk", spec=spec, status=status)
    claim = await cluster.client.get(CLAIMS, "default", "disk")
    reference = {"namespace": "default", "name": "disk", "uid": claim.metadata.uid}
    spec = {**both, "capacity": size, "claimRef": reference, **SOURCES[source]}
    spec["persistentVolumeReclaimPolicy"] = "Retain"
    cluster.add("PersistentVolume", "disk", spec=spec, status={"phase": "Bound"})


async def ask_for(cluster: Cluster, size: str) -> None:
    """Change the size that the claim requests."""
    patch = {"spec": {"resources": {"requests": {"storage": size}}}}
    await cluster.client.patch(CLAIMS, "default", "disk", patch, PatchType.MERGE)
    await asyncio.sleep(1)


async def finish(cluster: Cluster, size: str) -> None:
    """Do a kubelet's work."""
    status: JSON = {"capacity": {"storage": size}, "allocatedResourceStatuses": None}
    patch: JSON = {"status": {**status, "conditions": []}}
    await cluster.client.patch(
        CLAIMS, "default", "disk", patch, PatchType.MERGE, "status"
    )
    await asyncio.sleep(1)


async def events(cluster: Cluster) -> list[tuple[str, str, str, str, int]]:
    """Return the events: source, type, reason, message, count."""
    await asyncio.sleep(1)
    page = await cluster.client.list_page(EVENTS)
    return [
        (each.source.component, each.type, each.reason, each.message, each.count)
        for each in page.items
        if each.source is not None
    ]


async def state(cluster: Cluster) -> JSON:
    """Return the fields of claim and volume that the expander changes."""
    claim = await cluster.client.get(CLAIMS, "default", "disk")
    volume = await cluster.client.get(PERSISTENT_VOLUMES, "", "disk")
    status = claim.status
    return {
        "claim": claim.metadata.annotations,
        "conditions": [(each.type, each.message) for each in status.conditions or ()],
        "allocated": status.allocated_resources,
        "states": status.allocated_resource_statuses,
        "has": status.capacity,
        "volume": volume.metadata.annotations,
        "size": volume.spec.capacity,
    }


def normal(message: str) -> tuple[str, str, str, str, int]:
    """Return the event for an external resizer."""
    return ("volume_expand", "Normal", "ExternalExpanding", message, 1)


RESIZER = "volume.kubernetes.io/storage-resizer"
MARK = "volume.alpha.kubernetes.io/pre-resize-capacity"
UNTOUCHED: JSON = {
    "claim": None,
    "conditions": [],
    "allocated": None,
    "states": None,
    "has": {"storage": "1Gi"},
    "volume": None,
    "size": {"storage": "1Gi"},
}


async def test_the_resizer_of_a_csi_driver_expands_its_volumes(
    cluster: Cluster,
) -> None:
    """An event says so; a smaller request causes no event."""
    await add_claim(cluster, "csi")
    async with cluster.manager(CONFIG) as recording:
        await asyncio.sleep(1)
        assert await events(cluster) == []
        await ask_for(cluster, "3Gi")
        await ask_for(cluster, "2Gi")
        told = await events(cluster)
    assert told == [normal("waiting for an external controller to expand this PVC")]
    assert recording.writes == []
    assert await state(cluster) == UNTOUCHED


async def test_the_resizer_of_a_migrated_plugin_is_named() -> None:
    """The name is written once; upstream's role is enough."""
    cluster = Cluster(rbac=True)
    await add_claim(cluster, "ebs")
    async with cluster.confined_manager(CONFINED) as recording:
        await ask_for(cluster, "2Gi")
        await ask_for(cluster, "3Gi")
        told = await events(cluster)
    message = (
        "CSI migration enabled for kubernetes.io/aws-ebs; "
        "waiting for external resizer to expand the pvc"
    )
    assert [each[:4] for each in told] == [normal(message)[:4]]
    assert told[0][4] == 2
    assert [(each.method, each.path) for each in recording.writes] == [("PATCH", CLAIM)]
    assert await state(cluster) == {**UNTOUCHED, "claim": {RESIZER: "ebs.csi.aws.com"}}


async def test_a_kubelet_expands_a_flex_volume() -> None:
    """The claim has a condition, and the volume has its former capacity until then."""
    cluster = Cluster(rbac=True)
    await add_claim(cluster, "flex")
    async with cluster.confined_manager(CONFINED) as recording:
        await ask_for(cluster, "2Gi")
        prepared = await state(cluster)
        await finish(cluster, "2Gi")
        done = await state(cluster)
        told = await events(cluster)
    assert prepared == {
        "claim": {RESIZER: "example.com/flex"},
        "conditions": [("Resizing", ""), ("FileSystemResizePending", WAITING)],
        "allocated": {"storage": "2Gi"},
        "states": {"storage": "NodeResizePending"},
        "has": {"storage": "1Gi"},
        "volume": {MARK: "1Gi"},
        "size": {"storage": "2Gi"},
    }
    assert done == {
        "claim": {RESIZER: "example.com/flex"},
        "conditions": [],
        "allocated": {"storage": "2Gi"},
        "states": None,
        "has": {"storage": "2Gi"},
        "volume": None,
        "size": {"storage": "2Gi"},
    }
    assert told == []
    paths = [each.path for each in recording.writes]
    assert paths == [CLAIM, VOLUME, CLAIM, VOLUME, VOLUME]


async def test_a_flex_volume_of_blocks_needs_no_kubelet(cluster: Cluster) -> None:
    """It has no file system; an event tells that it is expanded."""
    await add_claim(cluster, "flex", "Block")
    async with cluster.manager(CONFIG) as recording:
        await ask_for(cluster, "2Gi")
        told = await events(cluster)
    assert await state(cluster) == {
        **UNTOUCHED,
        "claim": {RESIZER: "example.com/flex"},
        "allocated": {"storage": "2Gi"},
        "has": {"storage": "2Gi"},
        "size": {"storage": "2Gi"},
    }
    message = "ExpandVolume succeeded for volume default/disk"
    assert told == [("volume_expand", "Normal", "VolumeResizeSuccessful", message, 1)]
    assert [each.path for each in recording.writes] == [CLAIM, VOLUME, CLAIM]


async def test_a_volume_of_another_claim_is_not_changed(cluster: Cluster) -> None:
    """The sync is retried until the volume belongs to the claim."""
    await add_claim(cluster, "flex")
    place = (PERSISTENT_VOLUMES, "", "disk")
    own = (await cluster.client.get(*place)).spec.claim_ref
    assert own is not None
    other = {"spec": {"claimRef": {"uid": "another"}}}
    await cluster.client.patch(*place, other, PatchType.MERGE)
    async with cluster.manager(CONFIG) as recording:
        await ask_for(cluster, "2Gi")
        assert await events(cluster) == []
        assert recording.writes == []
        mended = {"spec": {"claimRef": {"uid": own.uid}}}
        await cluster.client.patch(*place, mended, PatchType.MERGE)
        await asyncio.sleep(10)
        assert len(recording.writes) == 4


class Refusing(RecordingTransport):
    """Answers the first patch of the volume with an error."""

    def __init__(self, cluster: Cluster, code: int, reason: str) -> None:
        super().__init__(InMemoryTransport(cluster.server, TOKEN))
        self._status = {"code": code, "reason": reason, "message": "no"}
        self._has_refused = False

    async def request(self, request: Request) -> Response:
        if (request.method, request.path) == ("PATCH", VOLUME):
            refuses, self._has_refused = not self._has_refused, True
            if refuses:
                body = msgspec.json.encode({"status": "Failure", **self._status})
                return Response(int(str(self._status["code"])), {}, body)
        return await super().request(request)


@pytest.mark.parametrize(
    ("code", "reason", "messages"),
    [
        (403, "Forbidden", ["error updating pv for pvc default/disk: no"]),
        (409, "Conflict", []),
    ],
)
async def test_a_failed_expansion_continues_later(
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    reason: str,
    messages: list[str],
) -> None:
    """It continues where it stopped; a refusal causes an event, a conflict does not."""
    registry = CollectorRegistry()
    metrics = StorageOperationMetrics(registry)
    monkeypatch.setattr(controller, "StorageOperationMetrics", lambda _: metrics)
    await add_claim(cluster, "flex")
    async with cluster.manager(CONFIG, Refusing(cluster, code, reason)):
        await ask_for(cluster, "2Gi")
        await asyncio.sleep(1)
        told = await events(cluster)
        done = await state(cluster)
    assert told == [
        ("volume_expand", "Warning", "VolumeResizeFailed", each, 1) for each in messages
    ]
    assert (done["states"], done["size"], done["volume"]) == (
        {"storage": "NodeResizePending"},
        {"storage": "2Gi"},
        {MARK: "1Gi"},
    )
    name = "storage_operation_duration_seconds_count"
    labels = {
        "volume_plugin": "example.com/flex",
        "operation_name": "expand_volume",
        "migrated": "false",
    }
    counts = [
        registry.get_sample_value(name, {**labels, "status": status})
        for status in ("fail-unknown", "success")
    ]
    assert counts == [1.0, 1.0]


class Ending(RecordingTransport):
    """Sends a number of patches, and fails all later ones."""

    def __init__(self, cluster: Cluster, patches: int) -> None:
        super().__init__(InMemoryTransport(cluster.server, TOKEN))
        self._left = patches

    async def request(self, request: Request) -> Response:
        if request.method == "PATCH":
            if not self._left:
                msg = "the process has ended"
                raise TransportError(msg)
            self._left -= 1
        return await super().request(request)


@pytest.mark.parametrize("mode", ["Filesystem", "Block"])
@pytest.mark.parametrize("patches", range(5))
async def test_an_expansion_that_ends_anywhere_is_finished_by_the_next_process(
    cluster: Cluster, mode: str, patches: int
) -> None:
    """The end is the same as that of an uninterrupted expansion."""
    await add_claim(cluster, "flex", mode)
    async with cluster.manager(CONFIG, Ending(cluster, patches)):
        await ask_for(cluster, "2Gi")
    async with cluster.manager(CONFIG):
        await asyncio.sleep(10)
    is_block = mode == "Block"
    waiting = [("Resizing", ""), ("FileSystemResizePending", WAITING)]
    assert await state(cluster) == {
        "claim": {RESIZER: "example.com/flex"},
        "conditions": [] if is_block else waiting,
        "allocated": {"storage": "2Gi"},
        "states": None if is_block else {"storage": "NodeResizePending"},
        "has": {"storage": "2Gi" if is_block else "1Gi"},
        "volume": None if is_block else {MARK: "1Gi"},
        "size": {"storage": "2Gi"},
    }
