"""The sync of a volume, as tables of situations."""

from typing import Any

import pytest

from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.controllers.storage.volumebinder.options import (
    VolumeBinderOptions,
)
from controller_manager.runtime.outcome import DONE, Done
from tests.controllers.storage.volumebinder.fixtures import (
    BOUND_TO_MINE,
    BY_CONTROLLER,
    COMPLETE,
    MINE,
    Binder,
    Synced,
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
UNBOUND = claim()
ITS_OWN = claim(COMPLETE, {"phase": "Bound"}, volumeName="v")
ELSEWHERE = claim(COMPLETE, {"phase": "Bound"}, volumeName="w")
LOST = claim(COMPLETE, {"phase": "Lost"}, volumeName="v")
NAMESAKE = claim(metadata={"uid": "later"})


def bound(phase: str = "Bound", **parts: Any) -> PersistentVolume:
    """Return a volume that refers to the claim."""
    return volume(phase=phase, claimRef=BOUND_TO_MINE, **parts)


def released(source: str = "csi", value: Any = None, **parts: Any) -> PersistentVolume:
    """Return a volume that is Released, of another kind if one is named."""
    sources = {} if source == "csi" else {"csi": None, source: value or {}}
    return bound("Released", **sources, **parts)


def summary(synced: Synced) -> tuple[Any, ...]:
    """Return the first write of a sync, or the reasons of its events."""
    if not synced.writes:
        return ("finished", *synced.reasons, "".join(synced.added))
    written, subresource = synced.writes[0]
    assert isinstance(written, PersistentVolume)
    if subresource:
        return ("status", written.status.phase, *synced.reasons)
    reference, metadata = written.spec.claim_ref, written.metadata
    uid = None if reference is None else reference.uid
    return ("volume", uid, metadata.annotations, metadata.finalizers)


async def sync(volume: PersistentVolume, found: PersistentVolumeClaim | None) -> Synced:
    """Sync a volume, with a claim in the cache and at the API server."""
    binder = Binder() if found is None else Binder(found)
    return await binder.sync_volume(volume)


@pytest.mark.parametrize(
    ("subject", "found", "expected"),
    [
        (volume(phase="Pending"), None, ("status", "Available")),
        (volume(phase="Released"), None, ("status", "Available")),
        (volume(), None, ("finished", "")),
        (volume(phase="Pending", claimRef=MINE), None, ("status", "Available")),
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
        (bound("Released"), None, ("finished", "")),
        (bound("Released"), NAMESAKE, ("finished", "")),
        (
            volume(phase="Bound", claimRef={"name": "data", "uid": "claim"}),
            None,
            ("status", "Released"),
        ),
        (bound(), None, ("status", "Released")),
        (bound("Available"), None, ("status", "Released")),
        (bound(), NAMESAKE, ("status", "Released")),
        (bound("Failed"), None, ("finished", "")),
        # Its reclaim policy decides.
        (released(persistentVolumeReclaimPolicy="Delete"), None, ("finished", "")),
        (
            released("nfs", persistentVolumeReclaimPolicy="Delete"),
            None,
            ("status", "Failed", "VolumeFailedDelete"),
        ),
        (
            released(
                "nfs", annotations=PROVISIONED, persistentVolumeReclaimPolicy="Delete"
            ),
            None,
            ("finished", ""),
        ),
        (
            released(
                "awsElasticBlockStore",
                annotations={**IN_TREE, **MIGRATED},
                persistentVolumeReclaimPolicy="Delete",
            ),
            None,
            ("finished", ""),
        ),
        (
            released("local", persistentVolumeReclaimPolicy="Recycle"),
            None,
            ("status", "Failed", "VolumeFailedRecycle"),
        ),
        (
            released(persistentVolumeReclaimPolicy="Burn"),
            None,
            ("status", "Failed", "VolumeUnknownReclaimPolicy"),
        ),
        # Annotations and finalizers of volumes of in-tree plugins.
        (
            volume(annotations=IN_TREE, metadata={"finalizers": ["a", FINALIZER]}),
            None,
            ("volume", None, {**IN_TREE, **MIGRATED}, ("a",)),
        ),
        (
            volume(annotations={**PROVISIONED, **MIGRATED}),
            None,
            ("volume", None, PROVISIONED, None),
        ),
        (
            volume(
                annotations=REMOVED,
                metadata={"finalizers": [EXTERNAL]},
                persistentVolumeReclaimPolicy="Delete",
            ),
            None,
            ("volume", None, REMOVED, (FINALIZER,)),
        ),
        (
            volume(annotations=REMOVED, metadata={"finalizers": [FINALIZER]}),
            None,
            ("volume", None, REMOVED, None),
        ),
        (
            volume(annotations=PROVISIONED, metadata={"finalizers": [EXTERNAL]}),
            None,
            ("finished", ""),
        ),
    ],
)
async def test_the_next_step_of_a_volume(
    subject: PersistentVolume,
    found: PersistentVolumeClaim | None,
    expected: tuple[Any, ...],
) -> None:
    """The table has all states of a volume and its claim."""
    assert summary(await sync(subject, found)) == expected


@pytest.mark.parametrize(
    ("subject", "found", "reads"),
    [
        (bound(), None, ["data"]),
        (bound(), NAMESAKE, ["data"]),
        (bound("Released"), NAMESAKE, ["data"]),
        (bound("Released"), None, []),
        (bound(), UNBOUND, []),
        (volume(phase="Bound", claimRef={"name": "data", "uid": "claim"}), None, []),
    ],
)
async def test_no_volume_is_released_before_its_claim_was_read(
    subject: PersistentVolume, found: PersistentVolumeClaim | None, reads: list[str]
) -> None:
    """The cache may be older than the binding. The claim is read once in a sync."""
    assert (await sync(subject, found)).reads == reads


@pytest.mark.parametrize("cached", [(), (NAMESAKE,)])
async def test_a_volume_follows_the_claim_that_only_the_api_server_shows(
    cached: tuple[PersistentVolumeClaim, ...],
) -> None:
    """The volume stays Bound."""
    binder = Binder(*cached, stored=[ITS_OWN])
    assert await binder.sync_volume(bound()) == Synced(reads=["data"], outcome=DONE)


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
async def test_a_volume_that_cannot_be_reclaimed_says_why(
    subject: PersistentVolume, message: str
) -> None:
    """The reason is in its status and in one event."""
    synced = await sync(subject, None)
    ((written, _),) = synced.writes
    assert isinstance(written, PersistentVolume)
    assert (written.status.phase, written.status.message) == ("Failed", message)
    assert [text for *_, text in synced.events] == [message]
    assert synced.outcome == DONE
    assert await sync(written, None) == Synced(outcome=DONE)


async def test_a_volume_of_another_mode_is_reported_on_both_objects() -> None:
    """The volume is never bound, so both objects would wait for ever."""
    synced = await sync(bound(volumeMode="Block"), UNBOUND)
    assert [(name, text) for name, _, _, text in synced.events] == [
        (
            "v",
            (
                "Cannot bind PersistentVolume to requested PersistentVolumeClaim "
                '"data" due to incompatible volumeMode.'
            ),
        ),
        (
            "data",
            (
                'Cannot bind PersistentVolume "v" to requested PersistentVolumeClaim '
                "due to incompatible volumeMode."
            ),
        ),
    ]
    assert synced.outcome == Done(VolumeBinderOptions().sync_period)
