"""The sync of a bound claim, as a table of situations."""

import json
from typing import Any, NamedTuple

import pytest
from msgspec import Raw
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

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
from tests.controllers.alone import Alone, Caches

FLEX: JSON = {"flexVolume": {"driver": "example.com/flex"}}
CSI: JSON = {"csi": {"driver": "csi.example.com", "volumeHandle": "1"}}
OUTSIDE = "waiting for an external controller to expand this PVC"
RESIZING = {
    "type": "Resizing",
    "status": "True",
    "lastTransitionTime": "2026-01-01T12:00:00Z",
}
PENDING = {
    "type": "FileSystemResizePending",
    "status": "True",
    "message": "Waiting for user to (re-)start a pod to finish file system resize of "
    "volume on node.",
    "lastTransitionTime": "2026-01-01T12:00:00Z",
}


class Write(NamedTuple):
    """A patch of the claim's status or of the volume, and the event if it fails."""

    of: str
    patch: JSON
    failure: str


class Expansion(NamedTuple):
    """The effects of a sync: an event about an external resizer, writes, an event.

    `plugin` is the one of an attempt that metrics count.
    """

    external: str = ""
    writes: tuple[Write, ...] = ()
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
    return claim(
        wants,
        has,
        "example.com/flex",
        allocatedResources={"storage": allocated},
        allocatedResourceStatuses={"storage": state},
        conditions=[RESIZING],
    )


def volume(has: str, mark: str = "", **spec: Any) -> PersistentVolume:
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
        self.sent: list[tuple[str, JSON]] = []
        self._registry = CollectorRegistry()

    def sync(self, of: PersistentVolumeClaim, on: PersistentVolume) -> Outcome:
        self._objects = {"data": of, "disk": on}
        caches = Caches()
        caches.fill(PERSISTENT_VOLUMES, [on])
        alone = Alone(VolumeExpanderReconciler, self, caches, registry=self._registry)
        self.events, self.about = alone.recorder.events, alone.recorder.about
        outcome: Outcome = alone.reconcile(of)
        return outcome

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
        place = (CLAIMS, "ns", "status"), (PERSISTENT_VOLUMES, "", "")
        assert (resource, namespace, subresource) in place
        if len(self.sent) == self._succeed:
            raise self._refusal(Status(message="no", reason=self._refusal.reason))
        kept = {key: value for key, value in patch.items() if value}
        self.sent.append((resource.plural, kept))
        version = self._versions[name] = f"{name}-{len(self.sent)}"
        return replace(obj, metadata=replace(obj.metadata, resource_version=version))

    def attempts(self) -> list[tuple[str, str]]:
        """Return plugin and status of the attempt that metrics have counted."""
        return [
            (sample.labels["volume_plugin"], sample.labels["status"])
            for family in self._registry.collect()
            for sample in family.samples
            if sample.name == "storage_operation_duration_seconds_count"
        ]


def begin(size: str, *, named: bool = False, **status: Any) -> Write:
    metadata = {"metadata": {"annotations": {RESIZER: "example.com/flex"}}}
    patch = {
        "conditions": [RESIZING],
        "allocatedResources": {"storage": size},
        "allocatedResourceStatuses": {"storage": "ControllerResizeInProgress"},
    }
    kept = {key: value for key, value in (patch | status).items() if value}
    return Write(CLAIMS.plural, ({} if named else metadata) | {"status": kept}, BEGIN)


def grow(size: str) -> Write:
    return Write(
        PERSISTENT_VOLUMES.plural, {"spec": {"capacity": {"storage": size}}}, GROW
    )


AWAIT_NODE = Write(
    CLAIMS.plural,
    {
        "status": {
            "conditions": [RESIZING, PENDING],
            "allocatedResourceStatuses": {"storage": "NodeResizePending"},
        }
    },
    AWAIT,
)
MARK = Write(
    PERSISTENT_VOLUMES.plural,
    {"metadata": {"annotations": {PRE_RESIZE_CAPACITY: "1Gi"}}},
    KEEP,
)
UNMARK = Write(
    PERSISTENT_VOLUMES.plural,
    {"metadata": {"annotations": {PRE_RESIZE_CAPACITY: None}}},
    "error updating pv disk",
)


def finish(size: str) -> Write:
    status = {
        "conditions": [],
        "capacity": {"storage": size},
        "allocatedResourceStatuses": {"storage": None},
    }
    return Write(CLAIMS.plural, {"status": status}, FINISH)


def migrated(plugin: str, driver: str) -> Expansion:
    message = (
        f"CSI migration enabled for kubernetes.io/{plugin}; "
        "waiting for external resizer to expand the pvc"
    )
    failure = "error setting resizer annotation to pvc ns/data, with error"
    patch = {"metadata": {"annotations": {RESIZER: driver}}}
    return Expansion(message, (Write(CLAIMS.plural, patch, failure),))


EBS: JSON = {"awsElasticBlockStore": {"volumeID": "vol-1"}}


def flex(*writes: Write, is_finished: bool = False) -> Expansion:
    return Expansion("", writes, is_finished, "example.com/flex")


TO_NODE = (AWAIT_NODE, MARK)
EBS_MIGRATED = migrated("aws-ebs", "ebs.csi.aws.com")
MORE: JSON = {"allocatedResources": {"storage": "3Gi"}}
MARKED = volume("2Gi", mark="1Gi", **FLEX)

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
    (claim("2Gi"), volume("1Gi", **EBS), EBS_MIGRATED),
    (claim("2Gi", resizer="kubernetes.io/aws-ebs"), volume("1Gi", **EBS), EBS_MIGRATED),
    (
        claim("2Gi", resizer="ebs.csi.aws.com"),
        volume("1Gi", **EBS),
        Expansion(EBS_MIGRATED.external),
    ),
    (
        claim("2Gi"),
        volume("1Gi", portworxVolume={"volumeID": "1"}),
        migrated("portworx-volume", "pxd.portworx.com"),
    ),
    # A kubelet expands the file system.
    (claim("2Gi"), volume("1Gi", **FLEX), flex(begin("2Gi"), grow("2Gi"), *TO_NODE)),
    (claim("2Gi"), volume("5Gi", **FLEX), flex(begin("2Gi"), *TO_NODE)),
    (
        claim("2Gi", **MORE),
        volume("5Gi", **FLEX),
        flex(begin("3Gi", allocatedResources=None), *TO_NODE),
    ),
    (
        claim("2Gi", **MORE),
        volume("1Gi", **FLEX),
        flex(begin("2Gi"), grow("2Gi"), *TO_NODE),
    ),
    # A volume of blocks has no file system.
    (
        claim("2Gi"),
        volume("1Gi", volumeMode="Block", **FLEX),
        flex(begin("2Gi"), grow("2Gi"), finish("2Gi"), is_finished=True),
    ),
    # An expansion continues where it stopped.
    (
        resizing("3Gi", "ControllerResizeInProgress", "2Gi"),
        volume("1Gi", **FLEX),
        flex(grow("2Gi"), *TO_NODE),
    ),
    (
        resizing("2Gi", "ControllerResizeInProgress", "2Gi"),
        volume("2Gi", **FLEX),
        flex(*TO_NODE),
    ),
    (
        resizing("2Gi", "ControllerResizeInfeasible", "3Gi"),
        volume("1Gi", **FLEX),
        flex(begin("2Gi", named=True, conditions=None), grow("2Gi"), *TO_NODE),
    ),
    (resizing("2Gi", "NodeResizePending", "2Gi"), MARKED, flex()),
    (resizing("2Gi", "NodeResizePending", "2Gi"), volume("2Gi", **FLEX), flex(MARK)),
    (resizing("2Gi", "NodeResizeInProgress", "2Gi"), MARKED, flex()),
    (resizing("2Gi", "NodeResizeInfeasible", "2Gi"), MARKED, flex(AWAIT_NODE)),
    # The kubelet is done.
    (claim("2Gi", "2Gi"), MARKED, Expansion(writes=(UNMARK,))),
]


@pytest.mark.parametrize(("of", "on", "expected"), SITUATIONS)
def test_the_sync_of_a_claim(
    of: PersistentVolumeClaim, on: PersistentVolume, expected: Expansion
) -> None:
    expander = Expander()
    assert expander.sync(of, on) == DONE
    assert expander.sent == [(write.of, write.patch) for write in expected.writes]
    events = []
    if expected.external:
        events += [("Normal", "ExternalExpanding", expected.external)]
    if expected.is_finished:
        message = "ExpandVolume succeeded for volume ns/data"
        events += [("Normal", "VolumeResizeSuccessful", message)]
    assert (expander.events, expander.about) == (events, [of] * len(events))
    attempts = [(expected.plugin, "success")] * bool(expected.plugin)
    assert expander.attempts() == attempts


@pytest.mark.parametrize(("of", "on", "expected"), SITUATIONS)
def test_each_write_that_is_refused_is_reported(
    of: PersistentVolumeClaim, on: PersistentVolume, expected: Expansion
) -> None:
    """The sync ends with an event; after a conflict it is only repeated."""
    reason = "ExternalExpanding" if expected.external else "VolumeResizeFailed"
    for number, write in enumerate(expected.writes):
        expander = Expander(number)
        with pytest.raises(APIError):
            expander.sync(of, on)
        separator = " " if write.failure.endswith("with error") else ": "
        message = f"{write.failure}{separator}no"
        assert expander.events[-1] == ("Warning", reason, message)
        assert expander.about[-1] is of
        counted = [(expected.plugin, "fail-unknown")] if expected.plugin else []
        assert expander.attempts() == counted
        expander = Expander(number, Conflict)
        with pytest.raises(Conflict):
            expander.sync(of, on)
        assert [each for each in expander.events if each[0] == "Warning"] == []


def test_conditions_that_are_not_about_resizing_stay() -> None:
    """Conditions of an earlier attempt are removed, unless a kubelet continues it."""
    own = {"type": "Own", "status": "False", "reason": "r", "lastProbeTime": "t"}
    failed = {"type": "NodeResizeError", "status": "True", "message": "no"}
    stopped = {"type": "Resizing", "status": "False"}
    of = claim("2Gi", conditions=[stopped, own, failed])
    expander = Expander()
    expander.sync(of, volume("1Gi", **FLEX))
    (_, first), _, (_, second), _ = expander.sent
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
    assert has_grown(old, new) is expected
