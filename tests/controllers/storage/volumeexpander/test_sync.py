"""The sync of a bound claim, as a table of situations."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec import Raw
from msgspec.structs import replace

from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.volumes import (
    PERSISTENT_VOLUMES,
    PRE_RESIZE_CAPACITY,
    PersistentVolume,
)
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import AnyResource, ObjectMeta, Status
from controller_manager.client.rest.client import PatchType
from controller_manager.client.rest.errors import APIError, Conflict
from controller_manager.controllers.storage.volumeexpander.controller import (
    RESIZER,
    VolumeExpanderReconciler,
    has_grown,
)
from controller_manager.runtime.outcome import DONE, Outcome
from tests.controllers.storage.contexts import Context

pytestmark = pytest.mark.looptime

FLEX: JSON = {"flexVolume": {"driver": "example.com/flex"}}
CSI: JSON = {"csi": {"driver": "csi.example.com", "volumeHandle": "1"}}
OUTSIDE = "waiting for an external controller to expand this PVC"
RESIZING = {
    "type": "Resizing",
    "status": "True",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
PENDING = {
    "type": "FileSystemResizePending",
    "status": "True",
    "message": "Waiting for user to (re-)start a pod to finish file system resize of "
    "volume on node.",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


@dataclass(frozen=True)
class ClaimPatch:
    """A patch of the claim's status; `failure` begins the event if it fails."""

    patch: JSON
    failure: str


@dataclass(frozen=True)
class VolumePatch:
    """A patch of the volume; `failure` begins the event if it fails."""

    patch: JSON
    failure: str


@dataclass(frozen=True)
class Expansion:
    """The effects of a sync: an event about an external resizer, writes, an event.

    `plugin` is the one of an attempt that metrics count.
    """

    external: str = ""
    writes: tuple[ClaimPatch | VolumePatch, ...] = ()
    is_finished: bool = False
    plugin: str = ""


NOTHING = Expansion()

BEGIN = "error updating pvc ns/data with resize in progress"
GROW = "error updating pv for pvc ns/data"
AWAIT = "error marking pvc ns/data for node expansion"
FINISH = "error marking pvc ns/data as resized"
KEEP = (
    f"error updating pv disk annotation ({PRE_RESIZE_CAPACITY}) with pre-resize "
    "capacity 1Gi"
)


def claim(
    wants: str, has: str = "1Gi", resizer: str = "", **status: Any
) -> PersistentVolumeClaim:
    """Return the claim "data"."""
    spec = {"resources": {"requests": {"storage": wants}}, "volumeName": "disk"}
    capacity = {"capacity": {"storage": has}, "phase": "Bound"}
    annotations = {RESIZER: resizer} if resizer else None
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name="data", namespace="ns", uid="claim", annotations=annotations
        ),
        raw_spec=Raw(json.dumps(spec).encode()),
        raw_status=Raw(json.dumps(capacity | status).encode()),
    )


def resizing(wants: str, state: str, allocated: str, has: str = "1Gi") -> Any:
    """Return the claim "data" in a state of its expansion."""
    return claim(
        wants,
        has,
        "example.com/flex",
        allocatedResources={"storage": allocated},
        allocatedResourceStatuses={"storage": state},
        conditions=[RESIZING],
    )


def volume(has: str, mark: str = "", **spec: Any) -> PersistentVolume:
    """Return the volume "disk"."""
    annotations = {PRE_RESIZE_CAPACITY: mark} if mark else None
    known = {"capacity": {"storage": has}, "claimRef": {"uid": "claim"}}
    return PersistentVolume(
        metadata=ObjectMeta(name="disk", uid="disk", annotations=annotations),
        raw_spec=Raw(json.dumps({**known, **spec}).encode()),
    )


class Expander:
    """An expander whose first patches succeed; the next one is refused."""

    def __init__(self, succeed: int = 99, refusal: type[APIError] = APIError) -> None:
        self._succeed = succeed
        self._refusal = refusal
        self._versions = {"data": "", "disk": ""}
        self._sent: list[tuple[AnyResource, str, JSON]] = []
        self.context = Context(self)

    async def sync(self, of: PersistentVolumeClaim, on: PersistentVolume) -> Outcome:
        """Sync a claim with this volume."""
        self._objects = {"data": of, "disk": on}
        reconciler = VolumeExpanderReconciler(self.context.of_controller())
        self.context.informer(PERSISTENT_VOLUMES).show(on)
        return await reconciler.reconcile(of)

    async def patch(
        self,
        resource: AnyResource,
        namespace: str,
        name: str,
        patch: JSON,
        patch_type: PatchType,
        subresource: str = "",
    ) -> Any:
        metadata = patch["metadata"]
        obj = self._objects[name]
        assert metadata.pop("uid") == obj.metadata.uid
        assert metadata.pop("resourceVersion") == self._versions[name]
        assert patch_type is PatchType.MERGE
        if resource is CLAIMS:
            assert (namespace, subresource) == ("ns", "status")
        else:
            assert (resource, namespace, subresource) == (PERSISTENT_VOLUMES, "", "")
        if len(self._sent) == self._succeed:
            raise self._refusal(Status(message="no", reason=self._refusal.reason))
        kept = {key: value for key, value in patch.items() if value}
        self._sent.append((resource, subresource, kept))
        version = self._versions[name] = f"{name}-{len(self._sent)}"
        return replace(obj, metadata=replace(obj.metadata, resource_version=version))

    def assert_did(self, expected: Expansion) -> None:
        """Compare the patches, the events and the metrics."""
        patches = [each for _, _, each in self._sent]
        assert patches == [each.patch for each in expected.writes]
        kinds = [resource is CLAIMS for resource, _, _ in self._sent]
        assert kinds == [isinstance(each, ClaimPatch) for each in expected.writes]
        events = []
        if expected.external:
            events += [("data", "Normal", "ExternalExpanding", expected.external)]
        if expected.is_finished:
            message = "ExpandVolume succeeded for volume ns/data"
            events += [("data", "Normal", "VolumeResizeSuccessful", message)]
        assert self.context.events == events
        assert all(each is self._objects["data"] for each in self.context.about)
        assert self.attempts() == (
            [(expected.plugin, "success")] * bool(expected.plugin)
        )

    def attempts(self) -> list[tuple[str, str]]:
        """Return plugin and status of the attempt that metrics have counted."""
        return [
            (sample.labels["volume_plugin"], sample.labels["status"])
            for family in self.context.registry.collect()
            for sample in family.samples
            if sample.name == "storage_operation_duration_seconds_count"
        ]


def begin(size: str, *, named: bool = False, **status: Any) -> ClaimPatch:
    """Return the write that says that the expansion has begun."""
    metadata = {"metadata": {"annotations": {RESIZER: "example.com/flex"}}}
    patch = {
        "conditions": [RESIZING],
        "allocatedResources": {"storage": size},
        "allocatedResourceStatuses": {"storage": "ControllerResizeInProgress"},
    }
    kept = {key: value for key, value in (patch | status).items() if value}
    return ClaimPatch(({} if named else metadata) | {"status": kept}, BEGIN)


def grow(size: str) -> VolumePatch:
    """Return the write of the volume's capacity."""
    return VolumePatch({"spec": {"capacity": {"storage": size}}}, GROW)


AWAIT_NODE = ClaimPatch(
    {
        "status": {
            "conditions": [RESIZING, PENDING],
            "allocatedResourceStatuses": {"storage": "NodeResizePending"},
        }
    },
    AWAIT,
)
MARK = VolumePatch({"metadata": {"annotations": {PRE_RESIZE_CAPACITY: "1Gi"}}}, KEEP)
UNMARK = VolumePatch(
    {"metadata": {"annotations": {PRE_RESIZE_CAPACITY: None}}},
    "error updating pv disk",
)


def finish(size: str) -> ClaimPatch:
    """Return the write that says that the volume is expanded."""
    status = {
        "conditions": [],
        "capacity": {"storage": size},
        "allocatedResourceStatuses": {"storage": None},
    }
    return ClaimPatch({"status": status}, FINISH)


def migrated(plugin: str, driver: str) -> Expansion:
    """Return the actions for a volume of a migrated plugin."""
    message = (
        f"CSI migration enabled for kubernetes.io/{plugin}; "
        "waiting for external resizer to expand the pvc"
    )
    failure = "error setting resizer annotation to pvc ns/data, with error"
    patch = {"metadata": {"annotations": {RESIZER: driver}}}
    return Expansion(message, (ClaimPatch(patch, failure),))


EBS: JSON = {"awsElasticBlockStore": {"volumeID": "vol-1"}}


def flex(
    writes: tuple[ClaimPatch | VolumePatch, ...] = (), *, is_finished: bool = False
) -> Expansion:
    """Return an attempt to expand a flex volume."""
    return Expansion("", writes, is_finished, "example.com/flex")


SITUATIONS = [
    # Nothing to expand.
    (claim("1Gi"), volume("1Gi", **CSI), NOTHING),
    (claim("1024Mi"), volume("1Gi", **FLEX), NOTHING),
    (claim("1Gi", "5Gi"), volume("5Gi", **EBS), NOTHING),
    # An external controller expands the volume.
    (claim("2Gi"), volume("1Gi", **CSI), Expansion(OUTSIDE)),
    (claim("2Gi"), volume("2Gi", **CSI), Expansion(OUTSIDE)),
    (claim("1Gi"), volume("1Gi", mark="1Gi", **CSI), Expansion(OUTSIDE)),
    (claim("2Gi"), volume("1Gi", nfs={}), Expansion(OUTSIDE)),
    (claim("2Gi"), volume("1Gi", hostPath={"path": "/"}), Expansion(OUTSIDE)),
    (claim("2Gi"), volume("1Gi", fc={}), Expansion(OUTSIDE)),
    # The resizer of a migrated plugin does.
    (claim("2Gi"), volume("1Gi", **EBS), migrated("aws-ebs", "ebs.csi.aws.com")),
    (
        claim("2Gi", resizer="kubernetes.io/aws-ebs"),
        volume("1Gi", **EBS),
        migrated("aws-ebs", "ebs.csi.aws.com"),
    ),
    (
        claim("2Gi", resizer="ebs.csi.aws.com"),
        volume("1Gi", **EBS),
        Expansion(migrated("aws-ebs", "").external),
    ),
    (
        claim("2Gi"),
        volume("1Gi", portworxVolume={"volumeID": "1"}),
        migrated("portworx-volume", "pxd.portworx.com"),
    ),
    # A kubelet expands the file system.
    (
        claim("2Gi"),
        volume("1Gi", **FLEX),
        flex(writes=(begin("2Gi"), grow("2Gi"), AWAIT_NODE, MARK)),
    ),
    (
        claim("2Gi"),
        volume("5Gi", **FLEX),
        flex(writes=(begin("2Gi"), AWAIT_NODE, MARK)),
    ),
    (
        claim("2Gi", allocatedResources={"storage": "3Gi"}),
        volume("5Gi", **FLEX),
        flex(writes=(begin("3Gi", allocatedResources=None), AWAIT_NODE, MARK)),
    ),
    (
        claim("2Gi", allocatedResources={"storage": "3Gi"}),
        volume("1Gi", **FLEX),
        flex(writes=(begin("2Gi"), grow("2Gi"), AWAIT_NODE, MARK)),
    ),
    # A volume of blocks has no file system.
    (
        claim("2Gi"),
        volume("1Gi", volumeMode="Block", **FLEX),
        flex(writes=(begin("2Gi"), grow("2Gi"), finish("2Gi")), is_finished=True),
    ),
    # An expansion continues where it stopped.
    (
        resizing("3Gi", "ControllerResizeInProgress", "2Gi"),
        volume("1Gi", **FLEX),
        flex(writes=(grow("2Gi"), AWAIT_NODE, MARK)),
    ),
    (
        resizing("2Gi", "ControllerResizeInProgress", "2Gi"),
        volume("2Gi", **FLEX),
        flex(writes=(AWAIT_NODE, MARK)),
    ),
    (
        resizing("2Gi", "ControllerResizeInfeasible", "3Gi"),
        volume("1Gi", **FLEX),
        flex(
            writes=(
                begin("2Gi", named=True, conditions=None),
                grow("2Gi"),
                AWAIT_NODE,
                MARK,
            )
        ),
    ),
    (
        resizing("2Gi", "NodeResizePending", "2Gi"),
        volume("2Gi", mark="1Gi", **FLEX),
        flex(),
    ),
    (
        resizing("2Gi", "NodeResizePending", "2Gi"),
        volume("2Gi", **FLEX),
        flex(writes=(MARK,)),
    ),
    (
        resizing("2Gi", "NodeResizeInProgress", "2Gi"),
        volume("2Gi", mark="1Gi", **FLEX),
        flex(),
    ),
    (
        resizing("2Gi", "NodeResizeInfeasible", "2Gi"),
        volume("2Gi", mark="1Gi", **FLEX),
        flex(writes=(AWAIT_NODE,)),
    ),
    # The kubelet is done.
    (
        claim("2Gi", "2Gi"),
        volume("2Gi", mark="1Gi", **FLEX),
        Expansion(writes=(UNMARK,)),
    ),
]


@pytest.mark.parametrize(("of", "on", "expected"), SITUATIONS)
async def test_the_sync_of_a_claim(
    of: PersistentVolumeClaim, on: PersistentVolume, expected: Expansion
) -> None:
    """It depends on the sizes, the state of the claim and the kind of the volume."""
    expander = Expander()
    assert await expander.sync(of, on) == DONE
    expander.assert_did(expected)


@pytest.mark.parametrize(("of", "on", "expected"), SITUATIONS)
async def test_each_write_that_is_refused_is_reported(
    of: PersistentVolumeClaim, on: PersistentVolume, expected: Expansion
) -> None:
    """The sync ends with an event; after a conflict it is only repeated."""
    reason = "ExternalExpanding" if expected.external else "VolumeResizeFailed"
    for number, write in enumerate(expected.writes):
        expander = Expander(number)
        with pytest.raises(APIError):
            await expander.sync(of, on)
        separator = " " if write.failure.endswith("with error") else ": "
        message = f"{write.failure}{separator}no"
        assert expander.context.events[-1] == ("data", "Warning", reason, message)
        assert expander.context.about[-1] is of
        counted = [(expected.plugin, "fail-unknown")] if expected.plugin else []
        assert expander.attempts() == counted
        expander = Expander(number, Conflict)
        with pytest.raises(Conflict):
            await expander.sync(of, on)
        assert [each for each in expander.context.events if each[1] == "Warning"] == []


async def test_conditions_that_are_not_about_resizing_stay() -> None:
    """Conditions of an earlier attempt are removed, unless a kubelet continues it."""
    own = {"type": "Own", "status": "False", "reason": "r", "lastProbeTime": "t"}
    failed = {"type": "NodeResizeError", "status": "True", "message": "no"}
    stopped = {"type": "Resizing", "status": "False"}
    of = claim("2Gi", conditions=[stopped, own, failed])
    expander = Expander()
    await expander.sync(of, volume("1Gi", **FLEX))
    (_, _, first), _, (_, _, second), _ = expander._sent
    assert first["status"]["conditions"] == [RESIZING, own]
    assert second["status"]["conditions"] == [RESIZING, own, PENDING]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (claim("1Gi"), claim("1Gi"), False),
        (claim("1Gi"), claim("1024Mi"), False),
        (claim("1Gi"), claim("2Gi"), True),
        (claim("2Gi"), claim("1Gi"), False),
        (claim("2Gi", "1Gi"), claim("2Gi", "2Gi"), True),
        (claim("2Gi", "2Gi"), claim("2Gi", "1Gi"), False),
        (claim("1Gi", "0"), claim("1Gi", "1Gi"), True),
    ],
)
def test_only_growth_of_a_claim_matters(
    old: PersistentVolumeClaim, new: PersistentVolumeClaim, *, expected: bool
) -> None:
    """The requested size or the capacity may grow."""
    assert has_grown(old, new) is expected
