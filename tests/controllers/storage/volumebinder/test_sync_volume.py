"""The decisions about a volume, as tables of situations."""

from typing import Any

import pytest

from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.controllers.storage.volumebinder.actions import (
    Action,
    Finished,
    ReadClaim,
    Write,
)
from controller_manager.controllers.storage.volumebinder.sync_volume import (
    decide_volume,
)
from controller_manager.controllers.storage.volumebinder.view import FoundClaim
from tests.controllers.storage.volumebinder.fixtures import (
    BOUND_TO_MINE,
    BY_CONTROLLER,
    COMPLETE,
    MINE,
    claim,
    volume,
)

PROVISIONED = {"pv.kubernetes.io/provisioned-by": "csi.example.com"}
IN_TREE = {"pv.kubernetes.io/provisioned-by": "kubernetes.io/aws-ebs"}
REMOVED = {"pv.kubernetes.io/provisioned-by": "kubernetes.io/quobyte"}
MIGRATED = {"pv.kubernetes.io/migrated-to": "ebs.csi.aws.com"}
TEMPORARY = "/tmp/data"  # noqa: S108 - nothing is written there
FINALIZER = "kubernetes.io/pv-controller"
EXTERNAL = "external-provisioner.volume.kubernetes.io/finalizer"
GONE = FoundClaim(None, is_read=True)
UNBOUND = FoundClaim(claim())
ITS_OWN = FoundClaim(claim(COMPLETE, {"phase": "Bound"}, volumeName="v"))
ELSEWHERE = FoundClaim(claim(COMPLETE, {"phase": "Bound"}, volumeName="w"))
LOST = FoundClaim(claim(COMPLETE, {"phase": "Lost"}, volumeName="v"))
NAMESAKE = claim(metadata={"uid": "later"})


def bound(phase: str = "Bound", **parts: Any) -> PersistentVolume:
    """Return a volume that refers to the claim."""
    return volume(phase=phase, claimRef=BOUND_TO_MINE, **parts)


def released(source: str = "csi", value: Any = None, **parts: Any) -> PersistentVolume:
    """Return a volume that is Released, of another kind if one is named."""
    sources = {} if source == "csi" else {"csi": None, source: value or {}}
    return bound("Released", **sources, **parts)


def summary(action: Action) -> tuple[Any, ...]:
    """Return the effects of an action, in a form that fits into a table."""
    match action:
        case Write(obj=PersistentVolume() as written, subresource="status"):
            reasons = [action.event.reason] if action.event else []
            return ("status", written.status.phase, *reasons)
        case Write(obj=PersistentVolume() as written):
            reference = written.spec.claim_ref
            uid = None if reference is None else reference.uid
            metadata = written.metadata
            return ("volume", uid, metadata.annotations, metadata.finalizers)
        case Finished() as finished:
            return (
                "finished",
                *(each.reason for each in finished.events),
                finished.claim_to_sync,
            )
    return (action,)


@pytest.mark.parametrize(
    ("subject", "found", "expected"),
    [
        (volume(phase="Pending"), FoundClaim(), ("status", "Available")),
        (volume(phase="Released"), FoundClaim(), ("status", "Available")),
        (volume(), FoundClaim(), ("finished", "")),
        (volume(phase="Pending", claimRef=MINE), FoundClaim(), ("status", "Available")),
        (volume(claimRef=MINE), UNBOUND, ("finished", "")),
        # The claim is there.
        (bound("Available"), UNBOUND, ("finished", "ns/data")),
        (bound("Available"), ITS_OWN, ("status", "Bound")),
        (bound(), ITS_OWN, ("finished", "")),
        (bound(), LOST, ("finished", "ns/data")),
        (bound("Failed"), ITS_OWN, ("status", "Bound")),
        (
            bound(volumeMode="Block"),
            UNBOUND,
            ("finished", "VolumeMismatch", "VolumeMismatch", ""),
        ),
        # The claim has another volume.
        (bound(annotations=BY_CONTROLLER), ELSEWHERE, ("volume", None, None, None)),
        (bound(), ELSEWHERE, ("volume", "", None, None)),
        (
            bound(annotations=PROVISIONED, persistentVolumeReclaimPolicy="Delete"),
            ELSEWHERE,
            ("status", "Released"),
        ),
        (bound(annotations=PROVISIONED), ELSEWHERE, ("volume", "", PROVISIONED, None)),
        # The claim is gone, or may be.
        (bound(), FoundClaim(), (ReadClaim("ns", "data"),)),
        (bound("Released"), FoundClaim(), ("finished", "")),
        (bound(), FoundClaim(NAMESAKE), (ReadClaim("ns", "data"),)),
        (bound("Released"), FoundClaim(NAMESAKE), (ReadClaim("ns", "data"),)),
        (
            volume(phase="Bound", claimRef={"name": "data", "uid": "claim"}),
            FoundClaim(),
            ("status", "Released"),
        ),
        (bound(), GONE, ("status", "Released")),
        (bound("Available"), GONE, ("status", "Released")),
        (bound(), FoundClaim(NAMESAKE, is_read=True), ("status", "Released")),
        (bound("Failed"), GONE, ("finished", "")),
        # Its reclaim policy decides.
        (released(persistentVolumeReclaimPolicy="Delete"), GONE, ("finished", "")),
        (
            released("nfs", persistentVolumeReclaimPolicy="Delete"),
            GONE,
            ("status", "Failed", "VolumeFailedDelete"),
        ),
        (
            released(
                "nfs", annotations=PROVISIONED, persistentVolumeReclaimPolicy="Delete"
            ),
            GONE,
            ("finished", ""),
        ),
        (
            released(
                "awsElasticBlockStore",
                annotations={**IN_TREE, **MIGRATED},
                persistentVolumeReclaimPolicy="Delete",
            ),
            GONE,
            ("finished", ""),
        ),
        (
            released("local", persistentVolumeReclaimPolicy="Recycle"),
            GONE,
            ("status", "Failed", "VolumeFailedRecycle"),
        ),
        (
            released(persistentVolumeReclaimPolicy="Burn"),
            GONE,
            ("status", "Failed", "VolumeUnknownReclaimPolicy"),
        ),
        # Annotations and finalizers of volumes of in-tree plugins.
        (
            volume(annotations=IN_TREE, metadata={"finalizers": ["a", FINALIZER]}),
            FoundClaim(),
            ("volume", None, {**IN_TREE, **MIGRATED}, ("a",)),
        ),
        (
            volume(annotations={**PROVISIONED, **MIGRATED}),
            FoundClaim(),
            ("volume", None, PROVISIONED, None),
        ),
        (
            volume(
                annotations=REMOVED,
                metadata={"finalizers": [EXTERNAL]},
                persistentVolumeReclaimPolicy="Delete",
            ),
            FoundClaim(),
            ("volume", None, REMOVED, (FINALIZER,)),
        ),
        (
            volume(annotations=REMOVED, metadata={"finalizers": [FINALIZER]}),
            FoundClaim(),
            ("volume", None, REMOVED, None),
        ),
        (
            volume(annotations=PROVISIONED, metadata={"finalizers": [EXTERNAL]}),
            FoundClaim(),
            ("finished", ""),
        ),
    ],
)
def test_the_next_action_for_a_volume(
    subject: PersistentVolume, found: FoundClaim, expected: tuple[Any, ...]
) -> None:
    """The table has all states of a volume and its claim."""
    assert summary(decide_volume(subject, found)) == expected


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        (
            released("nfs", persistentVolumeReclaimPolicy="Delete"),
            (
                'error getting deleter volume plugin for volume "v": '
                "no deletable volume plugin matched"
            ),
        ),
        (
            released(
                "hostPath", {"path": "/data"}, persistentVolumeReclaimPolicy="Delete"
            ),
            "host_path deleter only supports /tmp/.+ but received provided /data",
        ),
        (
            released(
                "hostPath",
                {"path": TEMPORARY},
                persistentVolumeReclaimPolicy="Delete",
            ),
            (
                "host_path deleter is not part of this controller manager: delete the "
                "directory and the volume by hand"
            ),
        ),
        (
            released(
                "hostPath",
                {"path": "/data"},
                annotations={
                    "pv.kubernetes.io/provisioned-by": "kubernetes.io/host-path"
                },
                metadata={"finalizers": [FINALIZER]},
                persistentVolumeReclaimPolicy="Delete",
            ),
            "host_path deleter only supports /tmp/.+ but received provided /data",
        ),
        (
            released(
                "quobyte",
                annotations=REMOVED,
                metadata={"finalizers": [FINALIZER]},
                persistentVolumeReclaimPolicy="Delete",
            ),
            "no volume plugin matched name: kubernetes.io/quobyte",
        ),
        *(
            (
                released(source, persistentVolumeReclaimPolicy="Delete"),
                f'error getting deleter volume plugin for volume "v": {why}',
            )
            for source, why in (
                ("nfs", "no deletable volume plugin matched"),
                ("local", "no volume plugin matched"),
                ("fc", "no volume plugin matched"),
                ("iscsi", "no volume plugin matched"),
                ("flexVolume", "no volume plugin matched"),
                ("awsElasticBlockStore", "no volume plugin matched"),
            )
        ),
        (
            released(
                "nfs",
                annotations={"pv.kubernetes.io/provisioned-by": "kubernetes.io/nfs"},
                metadata={"finalizers": [FINALIZER]},
                persistentVolumeReclaimPolicy="Delete",
            ),
            "no deletable volume plugin matched",
        ),
        (
            released(
                "local",
                annotations={
                    "pv.kubernetes.io/provisioned-by": "kubernetes.io/local-volume"
                },
                metadata={"finalizers": [FINALIZER]},
                persistentVolumeReclaimPolicy="Delete",
            ),
            "no volume plugin matched name: kubernetes.io/local-volume",
        ),
        (
            released("local", persistentVolumeReclaimPolicy="Recycle"),
            "No recycler plugin found for the volume!",
        ),
        (
            released("nfs", persistentVolumeReclaimPolicy="Recycle"),
            (
                "Recycle failed: recyclers of host path and NFS volumes are not part "
                "of this controller manager: clear the volume and its claimRef by hand"
            ),
        ),
    ],
)
def test_a_volume_that_cannot_be_reclaimed_says_why(
    subject: PersistentVolume, message: str
) -> None:
    """The reason is in its status and in one event."""
    action = decide_volume(subject, GONE)
    assert isinstance(action, Write)
    assert isinstance(action.obj, PersistentVolume)
    assert action.event is not None
    assert (action.obj.status.phase, action.obj.status.message) == ("Failed", message)
    assert action.event.message == message
    requeue = decide_volume(action.obj, GONE)
    assert isinstance(requeue, Finished)
    assert requeue.events == ()


def test_a_volume_of_another_mode_is_reported_on_both_objects() -> None:
    """The volume is never bound, so both objects would wait for ever."""
    action = decide_volume(bound(volumeMode="Block"), UNBOUND)
    assert isinstance(action, Finished)
    assert [each.message for each in action.events] == [
        (
            'Cannot bind PersistentVolume to requested PersistentVolumeClaim "data" '
            "due to incompatible volumeMode."
        ),
        (
            'Cannot bind PersistentVolume "v" to requested PersistentVolumeClaim '
            "due to incompatible volumeMode."
        ),
    ]
