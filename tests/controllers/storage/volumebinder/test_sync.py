"""The syncs of a claim and of a volume, as tables of situations."""

from functools import partial
from typing import Any

import msgspec
import pytest

from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import KubeObject, annotations_of, key_of
from controller_manager.controllers.storage.volumebinder.options import (
    VolumeBinderOptions,
)
from controller_manager.runtime.outcome import DONE, Done, Failed, Requeue, SyncError

from .fixtures import (
    BOUND_TO_MINE,
    BY_CONTROLLER,
    COMPLETE,
    MINE,
    OF_ANOTHER,
    OF_FORMER,
    Binder,
    Synced,
    claim,
    storage_class,
    volume,
    waiting_pod,
)

BOUND = {
    "phase": "Bound",
    "accessModes": ["ReadWriteOnce"],
    "capacity": {"storage": "1Gi"},
}
PENDING = {"phase": "Pending"}
LOST = {"phase": "Lost"}
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
GOLD: JSON = {"volumeAttributesClassName": "gold"}
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
MIGRATED_TO = "pv.kubernetes.io/migrated-to"
SELECTED = {"volume.kubernetes.io/selected-node": "n1"}
NO_CLASS = {"volume.beta.kubernetes.io/storage-class": ""}
HALF = {**BOUND, "capacity": {"storage": "512Mi"}}
GREW = {"volume.alpha.kubernetes.io/pre-resize-capacity": "1Gi"}
NEAR = {"matchExpressions": [{"key": "a", "operator": "Near"}]}


def asked(provisioner: str = "csi.example.com") -> dict[str, str]:
    beta = "volume.beta.kubernetes.io/storage-provisioner"
    return {PROVISIONER: provisioner, beta: provisioner}


STD = storage_class("std", is_default=True)
FAST = storage_class()
MODELESS = msgspec.structs.replace(FAST, volume_binding_mode=None)
WAITS = storage_class(mode="WaitForFirstConsumer")
AWS = {PROVISIONER: "kubernetes.io/aws-ebs"}
AWS_MIGRATED = {MIGRATED_TO: "ebs.csi.aws.com"}

names_it = partial(claim, volumeName="v")
WAS_BOUND = names_it(COMPLETE, BOUND)
NEARLY_BOUND = names_it(COMPLETE, PENDING)
IS_LOST = names_it(COMPLETE, LOST)
THEIRS = volume(claimRef=OF_ANOTHER)
FORMERS = volume(claimRef=OF_FORMER)
RESERVED = volume(claimRef=MINE)
holds = partial(volume, phase="Bound", claimRef=BOUND_TO_MINE)
LATER = Done(VolumeBinderOptions().sync_period)


def summary(synced: Synced) -> tuple[Any, ...]:
    """Return the first write of the sync of a claim, or the reasons of its events."""
    if not synced.writes:
        return ("finished", *synced.reasons)
    written, subresource = synced.writes[0]
    match written:
        case PersistentVolumeClaim() if subresource:
            return ("claim status", msgspec.json.decode(written.raw_status))
        case PersistentVolumeClaim():
            spec, annotations = written.spec, annotations_of(written.metadata)
            return ("claim", spec.volume_name, spec.storage_class_name, annotations)
        case _ if subresource:
            return ("volume status", written.metadata.name, written.status.phase)
    return ("volume", written.metadata.name, annotations_of(written.metadata))


FAILS = ("finished", "ProvisioningFailed")
UNBOUND_YET = ("finished", "FailedBinding")
BECOMES_BOUND = ("volume status", "v", "Bound")
IS_CHOSEN = ("volume", "v", BY_CONTROLLER)
BECOMES_LOST = ("claim status", LOST)


@pytest.mark.parametrize(
    ("subject", "others", "expected"),
    [
        # A claim that names no volume.
        (claim(), [volume()], IS_CHOSEN),
        (claim(), [holds(annotations=BY_CONTROLLER, phase="Available")], BECOMES_BOUND),
        (
            claim(),
            [holds(annotations=BY_CONTROLLER)],
            ("claim", "v", "fast", {**COMPLETE, **BY_CONTROLLER}),
        ),
        (claim(), [RESERVED], ("volume", "v", {})),
        (claim(), [FORMERS], FAILS),
        (claim(), [THEIRS], FAILS),
        (claim(), [volume(phase="Pending")], FAILS),
        (claim(), [volume(phase="Failed")], FAILS),
        (claim(), [volume(metadata=DELETED)], FAILS),
        # A class that waits for the first consumer.
        (claim(), [volume(), WAITS], ("finished", "WaitForFirstConsumer")),
        (claim(), [WAITS, waiting_pod("p")], ("finished", "WaitForPodScheduled")),
        (claim(), [volume(claimRef=BOUND_TO_MINE), WAITS], BECOMES_BOUND),
        (
            claim(SELECTED),
            [volume(), WAITS],
            ("claim", "", "fast", {**SELECTED, **asked()}),
        ),
        # Provisioning.
        (claim(), [FAST], ("claim", "", "fast", asked())),
        (claim(asked()), [FAST], ("finished", "ExternalProvisioning")),
        (claim(), [storage_class(provisioner="kubernetes.io/host-path")], FAILS),
        (
            claim(),
            [storage_class(provisioner="kubernetes.io/gce-pd")],
            ("claim", "", "fast", asked("pd.csi.storage.gke.io")),
        ),
        (claim(AWS), [], ("claim", "", "fast", {**AWS, **AWS_MIGRATED})),
        (claim({**asked(), **AWS_MIGRATED}), [], ("claim", "", "fast", asked())),
        # The default class.
        (claim(storageClassName=None), [STD], ("claim", "", "std", {})),
        (claim(NO_CLASS, storageClassName=None), [STD], UNBOUND_YET),
        (claim(storageClassName=""), [STD], UNBOUND_YET),
        (claim(storageClassName=None), [], UNBOUND_YET),
        (claim(storageClassName="", status={}), [], ("claim status", PENDING)),
        # A claim that asks for a volume by name.
        (names_it(), [], ("finished",)),
        (names_it(), [volume()], IS_CHOSEN),
        (names_it(), [volume(phase="Pending")], IS_CHOSEN),
        (names_it(), [RESERVED], ("volume", "v", {})),
        (names_it(), [THEIRS], UNBOUND_YET),
        (names_it(), [FORMERS], UNBOUND_YET),
        (names_it(), [holds()], ("claim", "v", "fast", COMPLETE)),
        # A claim that was bound once.
        (claim(COMPLETE, BOUND), [], BECOMES_LOST),
        (WAS_BOUND, [], BECOMES_LOST),
        (IS_LOST, [], ("finished",)),
        (WAS_BOUND, [THEIRS], BECOMES_LOST),
        (WAS_BOUND, [FORMERS], BECOMES_LOST),
        (WAS_BOUND, [volume()], IS_CHOSEN),
        (NEARLY_BOUND, [holds()], ("claim status", BOUND)),
        (IS_LOST, [holds()], ("claim status", BOUND)),
        (WAS_BOUND, [holds()], ("finished",)),
        # The file system may be smaller than its device, once the claim is Bound.
        (names_it(COMPLETE, HALF), [holds()], ("finished",)),
        (NEARLY_BOUND, [holds("v", "2Gi", GREW)], ("claim status", BOUND)),
        (
            NEARLY_BOUND,
            [holds(**GOLD)],
            ("claim status", {**BOUND, "currentVolumeAttributesClassName": "gold"}),
        ),
    ],
)
async def test_the_next_step_of_a_claim(
    subject: PersistentVolumeClaim, others: list[KubeObject], expected: tuple[Any, ...]
) -> None:
    assert summary(await Binder(*others).sync_claim(subject)) == expected


async def test_a_binding_takes_a_read_and_four_writes() -> None:
    synced = await Binder(volume()).sync_claim(claim())
    assert [(key_of(written), part) for written, part in synced.writes] == [
        ("v", ""),
        ("v", "status"),
        ("ns/data", ""),
        ("ns/data", "status"),
    ]
    assert (synced.outcome, synced.events, synced.reads) == (DONE, [], ["data"])


@pytest.mark.parametrize(
    "binder",
    [
        Binder(stored=[volume(claimRef=BOUND_TO_MINE)]),
        Binder(THEIRS, stored=[volume(metadata={"resourceVersion": "9"})]),
    ],
)
async def test_no_claim_is_lost_before_its_volume_was_read(binder: Binder) -> None:
    """The cache may be older than the binding. A claim that is Lost stays Lost."""
    old = Requeue(1.0, "the cache shows an old version")
    assert await binder.sync_claim(WAS_BOUND) == Synced(reads=["v"], outcome=old)
    synced = await binder.sync_claim(IS_LOST)
    assert (synced.outcome, synced.writes, synced.reads) == (LATER, [], [])


@pytest.mark.parametrize(
    ("reason", "name", "others"),
    [("ClaimLost", "", []), ("ClaimLost", "v", []), ("ClaimMisbound", "v", [THEIRS])],
)
async def test_a_claim_that_is_lost_is_told_so(
    reason: str, name: str, others: list[KubeObject]
) -> None:
    subject = claim(COMPLETE, BOUND, volumeName=name)
    synced = await Binder(*others).sync_claim(subject)
    assert (len(synced.writes), synced.reasons) == (1, [reason])
    assert synced.outcome == LATER


async def test_a_binding_is_settled_when_nothing_is_missing() -> None:
    assert await Binder(holds()).sync_claim(WAS_BOUND) == Synced(outcome=DONE)


def mismatch(problem: str) -> tuple[str, str, str]:
    message = f'Cannot bind to requested volume "v": {problem}'
    return "Warning", "VolumeMismatch", message


def failure(provisioner: str) -> tuple[Any, ...]:
    message = f"no volume plugin matched name: {provisioner}"
    event = "Warning", "ProvisioningFailed", message
    return claim(), [storage_class(provisioner=provisioner)], event


@pytest.mark.parametrize(
    ("subject", "others", "event"),
    [
        (names_it(), [volume(size="1023Mi")], mismatch("requested PV is too small")),
        (
            names_it(storageClassName="slow"),
            [volume()],
            mismatch("storageClassName does not match"),
        ),
        (
            names_it(**GOLD),
            [volume()],
            mismatch("volumeAttributesClassName does not match"),
        ),
        (names_it(volumeMode="Block"), [volume()], mismatch("incompatible volumeMode")),
        (
            names_it(accessModes=["ReadWriteMany"]),
            [volume()],
            mismatch("incompatible accessMode"),
        ),
        (
            names_it(),
            [volume(metadata=DELETED)],
            mismatch('the volume is marked for deletion "v"'),
        ),
        (
            claim(),
            [WAITS, waiting_pod("web-1"), waiting_pod("web-0")],
            (
                "Normal",
                "WaitForPodScheduled",
                "waiting for pods web-0,web-1 to be scheduled",
            ),
        ),
        # Upstream's binder knows the plugins of host paths and NFS only.
        (
            claim(),
            [storage_class(provisioner="kubernetes.io/nfs")],
            ("Warning", "ProvisioningFailed", "no provisionable volume plugin matched"),
        ),
        failure("kubernetes.io/no-provisioner"),
        failure("kubernetes.io/local-volume"),
        failure("kubernetes.io/fc"),
        failure("kubernetes.io/iscsi"),
        failure("kubernetes.io/csi"),
    ],
)
async def test_a_claim_is_told_why_it_is_not_bound(
    subject: PersistentVolumeClaim,
    others: list[KubeObject],
    event: tuple[str, str, str],
) -> None:
    synced = await Binder(*others).sync_claim(subject)
    assert synced == Synced(events=[("data", *event)], outcome=LATER)


@pytest.mark.parametrize(
    ("subject", "other", "message"),
    [
        (claim(), MODELESS, 'VolumeBindingMode not set for StorageClass "fast"'),
        (
            NEARLY_BOUND,
            holds(capacity={}),
            'PersistentVolume "v" is without a storage capacity',
        ),
        (
            claim(selector=NEAR),
            volume(),
            "error creating label selector for claim ns/data: ",
        ),
    ],
)
async def test_the_error_names_an_invalid_object(
    subject: PersistentVolumeClaim, other: KubeObject, message: str
) -> None:
    with pytest.raises(SyncError) as caught:
        await Binder(other).sync_claim(subject)
    assert str(caught.value).startswith(message)


async def test_a_claim_without_its_annotation_is_not_bound_to_anothers_volume() -> None:
    synced = await Binder(THEIRS).sync_claim(names_it(BY_CONTROLLER))
    assert isinstance(synced.outcome, Failed)
    assert isinstance(synced.outcome.error, SyncError)
    assert synced.outcome.requeue_after == LATER.requeue_after
    assert synced.reasons == ["FailedBinding"]
    assert str(synced.outcome.error) == (
        'invalid binding of claim "ns/data" to volume "v": volume already claimed by '
        '"ns/other"'
    )


async def test_unknown_fields_stay() -> None:
    """They may be of a later API version, in spec and status; each write keeps them."""
    subject = names_it(COMPLETE, {**PENDING, "later": [1]}, later={"a": None})
    synced = await Binder(holds(later=1.5)).sync_claim(subject)
    written = msgspec.json.decode(msgspec.json.encode(synced.writes[0][0]))
    assert written["spec"]["later"] == {"a": None}
    assert written["status"]["later"] == [1]


# A volume.


def by(plugin: str) -> dict[str, str]:
    return {"pv.kubernetes.io/provisioned-by": plugin}


PROVISIONED = by("csi.example.com")
IN_TREE = by("kubernetes.io/aws-ebs")
REMOVED = by("kubernetes.io/quobyte")
TEMPORARY = "/tmp/data"  # noqa: S108 - nothing is written there
FINALIZER = "kubernetes.io/pv-controller"
OWN = {"finalizers": [FINALIZER]}
EXTERNAL = {"finalizers": ["external-provisioner.volume.kubernetes.io/finalizer"]}
DELETE: JSON = {"persistentVolumeReclaimPolicy": "Delete"}
RECYCLE: JSON = {"persistentVolumeReclaimPolicy": "Recycle"}
NO_UID = {"name": "data", "uid": "claim"}
UNBOUND = claim()
ELSEWHERE = claim(COMPLETE, {"phase": "Bound"}, volumeName="w")
NAMESAKE = claim(metadata={"uid": "later"})


def released(source: str = "csi", value: Any = None, **parts: Any) -> PersistentVolume:
    """Return a volume that is Released, of another kind if one is named."""
    sources = {} if source == "csi" else {"csi": None, source: value or {}}
    return holds(phase="Released", **{**sources, **parts})


def volume_summary(synced: Synced) -> tuple[Any, ...]:
    """Return the first write of the sync of a volume, or the reasons of its events."""
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


STAYS = ("finished", "")
RELEASES = ("status", "Released")


@pytest.mark.parametrize(
    ("subject", "found", "expected"),
    [
        (volume(phase="Pending"), None, ("status", "Available")),
        (volume(phase="Released"), None, ("status", "Available")),
        (volume(), None, STAYS),
        (volume(phase="Pending", claimRef=MINE), None, ("status", "Available")),
        (volume(claimRef=MINE), UNBOUND, STAYS),
        # The claim is there.
        (holds(phase="Available"), UNBOUND, ("finished", "ns/data")),
        (holds(phase="Available"), WAS_BOUND, ("status", "Bound")),
        (holds(), WAS_BOUND, STAYS),
        (holds(), IS_LOST, ("finished", "ns/data")),
        (holds(phase="Failed"), WAS_BOUND, ("status", "Bound")),
        # The claim has another volume.
        (holds(annotations=BY_CONTROLLER), ELSEWHERE, ("volume", None, None, None)),
        (holds(), ELSEWHERE, ("volume", "", None, None)),
        (holds(annotations=PROVISIONED, **DELETE), ELSEWHERE, RELEASES),
        (holds(annotations=PROVISIONED), ELSEWHERE, ("volume", "", PROVISIONED, None)),
        # The claim is gone, or may be.
        (released(), None, STAYS),
        (released(), NAMESAKE, STAYS),
        (volume(phase="Bound", claimRef=NO_UID), None, RELEASES),
        (holds(), None, RELEASES),
        (holds(phase="Available"), None, RELEASES),
        (holds(), NAMESAKE, RELEASES),
        (holds(phase="Failed"), None, STAYS),
        # Its reclaim policy decides.
        (released(**DELETE), None, STAYS),
        (released("nfs", annotations=PROVISIONED, **DELETE), None, STAYS),
        (
            released(
                "awsElasticBlockStore",
                annotations={**IN_TREE, **AWS_MIGRATED},
                **DELETE,
            ),
            None,
            STAYS,
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
            ("volume", None, {**IN_TREE, **AWS_MIGRATED}, ("a",)),
        ),
        (
            volume(annotations={**PROVISIONED, **AWS_MIGRATED}),
            None,
            ("volume", None, PROVISIONED, None),
        ),
        (
            volume(annotations=REMOVED, metadata=EXTERNAL, **DELETE),
            None,
            ("volume", None, REMOVED, (FINALIZER,)),
        ),
        (
            volume(annotations=REMOVED, metadata=OWN),
            None,
            ("volume", None, REMOVED, None),
        ),
        (volume(annotations=PROVISIONED, metadata=EXTERNAL), None, STAYS),
    ],
)
async def test_the_next_step_of_a_volume(
    subject: PersistentVolume,
    found: PersistentVolumeClaim | None,
    expected: tuple[Any, ...],
) -> None:
    assert volume_summary(await sync(subject, found)) == expected


@pytest.mark.parametrize(
    ("subject", "found", "reads"),
    [
        (holds(), None, ["data"]),
        (holds(), NAMESAKE, ["data"]),
        (released(), NAMESAKE, ["data"]),
        (released(), None, []),
        (holds(), UNBOUND, []),
        (volume(phase="Bound", claimRef=NO_UID), None, []),
    ],
)
async def test_no_volume_is_released_before_its_claim_was_read(
    subject: PersistentVolume, found: PersistentVolumeClaim | None, reads: list[str]
) -> None:
    """The cache may be older than the binding. The claim is read once in a sync."""
    assert (await sync(subject, found)).reads == reads


@pytest.mark.parametrize("cached", [(), (NAMESAKE,)])
async def test_unseen_claims_count(cached: tuple[PersistentVolumeClaim, ...]) -> None:
    binder = Binder(*cached, stored=[WAS_BOUND])
    assert await binder.sync_volume(holds()) == Synced(reads=["data"], outcome=DONE)


def undeletable(source: str, why: str) -> tuple[PersistentVolume, str]:
    message = f'error getting deleter volume plugin for volume "v": {why}'
    return released(source, **DELETE), message


_DELETED: Any = partial(released, metadata=OWN, **DELETE)
_NOT_TEMPORARY = "host_path deleter only supports /tmp/.+ but received provided /data"


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        (released("hostPath", {"path": "/data"}, **DELETE), _NOT_TEMPORARY),
        (
            released("hostPath", {"path": TEMPORARY}, **DELETE),
            (
                "host_path deleter is not part of this controller manager: delete the "
                "directory and the volume by hand"
            ),
        ),
        (
            _DELETED(
                "hostPath", {"path": "/data"}, annotations=by("kubernetes.io/host-path")
            ),
            _NOT_TEMPORARY,
        ),
        (
            _DELETED("quobyte", annotations=REMOVED),
            "no volume plugin matched name: kubernetes.io/quobyte",
        ),
        undeletable("nfs", "no deletable volume plugin matched"),
        undeletable("local", "no volume plugin matched"),
        undeletable("fc", "no volume plugin matched"),
        undeletable("iscsi", "no volume plugin matched"),
        undeletable("flexVolume", "no volume plugin matched"),
        undeletable("awsElasticBlockStore", "no volume plugin matched"),
        (
            _DELETED("nfs", annotations=by("kubernetes.io/nfs")),
            "no deletable volume plugin matched",
        ),
        (
            _DELETED("local", annotations=by("kubernetes.io/local-volume")),
            "no volume plugin matched name: kubernetes.io/local-volume",
        ),
        (released("local", **RECYCLE), "No recycler plugin found for the volume!"),
        (
            released("nfs", **RECYCLE),
            (
                "Recycle failed: recyclers of host path and NFS volumes are not part "
                "of this controller manager: clear the volume and its claimRef by hand"
            ),
        ),
    ],
)
async def test_a_failed_reclaim_says(subject: PersistentVolume, message: str) -> None:
    synced = await sync(subject, None)
    ((written, _),) = synced.writes
    assert isinstance(written, PersistentVolume)
    assert (written.status.phase, written.status.message) == ("Failed", message)
    reclaims = subject.spec.persistent_volume_reclaim_policy
    reason = f"VolumeFailed{reclaims}"
    assert synced.events == [("v", "Warning", reason, message)]
    assert synced.outcome == DONE
    assert await sync(written, None) == Synced(outcome=DONE)


async def test_a_volume_of_another_mode_is_reported_on_both_objects() -> None:
    """The volume is never bound, so both objects would wait for ever."""
    synced = await sync(holds(volumeMode="Block"), UNBOUND)
    because = "due to incompatible volumeMode."
    texts = {
        "v": 'Cannot bind PersistentVolume to requested PersistentVolumeClaim "data"',
        "data": 'Cannot bind PersistentVolume "v" to requested PersistentVolumeClaim',
    }
    assert synced == Synced(
        events=[
            (name, "Warning", "VolumeMismatch", f"{text} {because}")
            for name, text in texts.items()
        ],
        outcome=LATER,
    )
