"""The sync of a claim, as tables of situations."""

from typing import Any

import msgspec
import pytest

from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.meta import annotations_of, key_of
from controller_manager.controllers.storage.volumebinder.options import (
    VolumeBinderOptions,
)
from controller_manager.runtime.outcome import (
    DONE,
    Done,
    Failed,
    Outcome,
    Requeue,
    SyncError,
)
from tests.controllers.storage.volumebinder.fixtures import (
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
)

BOUND = {
    "phase": "Bound",
    "accessModes": ["ReadWriteOnce"],
    "capacity": {"storage": "1Gi"},
}
PENDING = {"phase": "Pending"}
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
BETA_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
SELECTED = {"volume.kubernetes.io/selected-node": "n1"}
ASKED = {PROVISIONER: "csi.example.com", BETA_PROVISIONER: "csi.example.com"}
WAITS = storage_class(mode="WaitForFirstConsumer")


LATER = Done(VolumeBinderOptions().sync_period)


def summary(synced: Synced) -> tuple[Any, ...]:
    """Return the first write of a sync, or the reasons of its events."""
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


@pytest.mark.parametrize(
    ("subject", "binder", "expected"),
    [
        # A claim that names no volume.
        (claim(), Binder(volume()), ("volume", "v", BY_CONTROLLER)),
        (
            claim(),
            Binder(volume(annotations=BY_CONTROLLER, claimRef=BOUND_TO_MINE)),
            ("volume status", "v", "Bound"),
        ),
        (
            claim(),
            Binder(
                volume(annotations=BY_CONTROLLER, phase="Bound", claimRef=BOUND_TO_MINE)
            ),
            ("claim", "v", "fast", {**COMPLETE, **BY_CONTROLLER}),
        ),
        (claim(), Binder(volume(claimRef=MINE)), ("volume", "v", {})),
        (
            claim(),
            Binder(volume(claimRef=OF_FORMER)),
            ("finished", "ProvisioningFailed"),
        ),
        (
            claim(),
            Binder(volume(claimRef=OF_ANOTHER)),
            ("finished", "ProvisioningFailed"),
        ),
        (
            claim(),
            Binder(volume(phase="Pending")),
            ("finished", "ProvisioningFailed"),
        ),
        (claim(), Binder(volume(phase="Failed")), ("finished", "ProvisioningFailed")),
        (
            claim(),
            Binder(volume(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})),
            ("finished", "ProvisioningFailed"),
        ),
        # A class that waits for the first consumer.
        (
            claim(),
            Binder(volume(), classes=[WAITS]),
            ("finished", "WaitForFirstConsumer"),
        ),
        (
            claim(),
            Binder(classes=[WAITS], pods=["p"]),
            ("finished", "WaitForPodScheduled"),
        ),
        (
            claim(),
            Binder(volume(claimRef=BOUND_TO_MINE), classes=[WAITS]),
            ("volume status", "v", "Bound"),
        ),
        (
            claim(SELECTED),
            Binder(volume(), classes=[WAITS]),
            ("claim", "", "fast", {**SELECTED, **ASKED}),
        ),
        # Provisioning.
        (claim(), Binder(classes=[storage_class()]), ("claim", "", "fast", ASKED)),
        (
            claim(ASKED),
            Binder(classes=[storage_class()]),
            ("finished", "ExternalProvisioning"),
        ),
        (
            claim(ASKED),
            Binder(classes=[storage_class()], provisions=False),
            ("finished",),
        ),
        (
            claim(),
            Binder(classes=[storage_class(provisioner="kubernetes.io/no-provisioner")]),
            ("finished", "ProvisioningFailed"),
        ),
        (
            claim(),
            Binder(classes=[storage_class(provisioner="kubernetes.io/host-path")]),
            ("finished", "ProvisioningFailed"),
        ),
        (
            claim(),
            Binder(classes=[storage_class(provisioner="kubernetes.io/gce-pd")]),
            (
                "claim",
                "",
                "fast",
                {
                    PROVISIONER: "pd.csi.storage.gke.io",
                    BETA_PROVISIONER: "pd.csi.storage.gke.io",
                },
            ),
        ),
        (
            claim({PROVISIONER: "kubernetes.io/aws-ebs"}),
            Binder(),
            (
                "claim",
                "",
                "fast",
                {
                    PROVISIONER: "kubernetes.io/aws-ebs",
                    "pv.kubernetes.io/migrated-to": "ebs.csi.aws.com",
                },
            ),
        ),
        (
            claim({**ASKED, "pv.kubernetes.io/migrated-to": "ebs.csi.aws.com"}),
            Binder(),
            ("claim", "", "fast", ASKED),
        ),
        # The default class.
        (
            claim(storageClassName=None),
            Binder(classes=[storage_class("std", is_default=True)]),
            ("claim", "", "std", {}),
        ),
        (
            claim(
                {"volume.beta.kubernetes.io/storage-class": ""}, storageClassName=None
            ),
            Binder(classes=[storage_class("std", is_default=True)]),
            ("finished", "FailedBinding"),
        ),
        (
            claim(storageClassName=""),
            Binder(classes=[storage_class("std", is_default=True)]),
            ("finished", "FailedBinding"),
        ),
        (claim(storageClassName=None), Binder(), ("finished", "FailedBinding")),
        (
            claim(storageClassName="", status={}),
            Binder(),
            ("claim status", PENDING),
        ),
        # A claim that asks for a volume by name.
        (claim(volumeName="v"), Binder(), ("finished",)),
        (claim(volumeName="v"), Binder(volume()), ("volume", "v", BY_CONTROLLER)),
        (
            claim(volumeName="v"),
            Binder(volume(phase="Pending")),
            ("volume", "v", BY_CONTROLLER),
        ),
        (
            claim(volumeName="v"),
            Binder(volume(size="1Mi")),
            ("finished", "VolumeMismatch"),
        ),
        (claim(volumeName="v"), Binder(volume(claimRef=MINE)), ("volume", "v", {})),
        (
            claim(volumeName="v"),
            Binder(volume(claimRef=OF_ANOTHER)),
            ("finished", "FailedBinding"),
        ),
        (
            claim(volumeName="v"),
            Binder(volume(claimRef=OF_FORMER)),
            ("finished", "FailedBinding"),
        ),
        (
            claim(BY_CONTROLLER, volumeName="v"),
            Binder(volume(claimRef=OF_ANOTHER)),
            ("finished", "FailedBinding"),
        ),
        (
            claim(volumeName="v"),
            Binder(volume(phase="Bound", claimRef=BOUND_TO_MINE)),
            ("claim", "v", "fast", COMPLETE),
        ),
        # A claim that was bound once.
        (claim(COMPLETE, BOUND), Binder(), ("claim status", {"phase": "Lost"})),
        (
            claim(COMPLETE, BOUND, volumeName="v"),
            Binder(),
            ("claim status", {"phase": "Lost"}),
        ),
        (claim(COMPLETE, {"phase": "Lost"}, volumeName="v"), Binder(), ("finished",)),
        (
            claim(COMPLETE, BOUND, volumeName="v"),
            Binder(volume(claimRef=OF_ANOTHER)),
            ("claim status", {"phase": "Lost"}),
        ),
        (
            claim(COMPLETE, BOUND, volumeName="v"),
            Binder(volume(claimRef=OF_FORMER)),
            ("claim status", {"phase": "Lost"}),
        ),
        (
            claim(COMPLETE, BOUND, volumeName="v"),
            Binder(volume()),
            ("volume", "v", BY_CONTROLLER),
        ),
        (
            claim(COMPLETE, PENDING, volumeName="v"),
            Binder(volume(phase="Bound", claimRef=BOUND_TO_MINE)),
            ("claim status", BOUND),
        ),
        (
            claim(COMPLETE, {"phase": "Lost"}, volumeName="v"),
            Binder(volume(phase="Bound", claimRef=BOUND_TO_MINE)),
            ("claim status", BOUND),
        ),
        (
            claim(COMPLETE, BOUND, volumeName="v"),
            Binder(volume(phase="Bound", claimRef=BOUND_TO_MINE)),
            ("finished",),
        ),
        # The file system may be smaller than its device, once the claim is Bound.
        (
            claim(
                COMPLETE, {**BOUND, "capacity": {"storage": "512Mi"}}, volumeName="v"
            ),
            Binder(volume(phase="Bound", claimRef=BOUND_TO_MINE)),
            ("finished",),
        ),
        (
            claim(COMPLETE, PENDING, volumeName="v"),
            Binder(
                volume(
                    size="2Gi",
                    phase="Bound",
                    annotations={
                        "volume.alpha.kubernetes.io/pre-resize-capacity": "1Gi"
                    },
                    claimRef=BOUND_TO_MINE,
                )
            ),
            ("claim status", BOUND),
        ),
        (
            claim(COMPLETE, PENDING, volumeName="v"),
            Binder(
                volume(
                    phase="Bound",
                    claimRef=BOUND_TO_MINE,
                    volumeAttributesClassName="gold",
                )
            ),
            ("claim status", {**BOUND, "currentVolumeAttributesClassName": "gold"}),
        ),
    ],
)
async def test_the_next_step_of_a_claim(
    subject: PersistentVolumeClaim, binder: Binder, expected: tuple[Any, ...]
) -> None:
    """The table has all states of a claim and its volume."""
    assert summary(await binder.sync_claim(subject)) == expected


async def test_a_binding_takes_four_writes() -> None:
    """The volume is written first; afterwards nothing is missing."""
    synced = await Binder(volume()).sync_claim(claim())
    assert [(key_of(written), part) for written, part in synced.writes] == [
        ("v", ""),
        ("v", "status"),
        ("ns/data", ""),
        ("ns/data", "status"),
    ]
    assert (synced.outcome, synced.events, synced.reads) == (DONE, [], [])


@pytest.mark.parametrize(
    ("binder", "expected"),
    [
        (
            Binder(stored=[volume(claimRef=BOUND_TO_MINE)]),
            Requeue(1.0, "the cache shows an old version of the volume"),
        ),
        (
            Binder(
                volume(claimRef=OF_ANOTHER),
                stored=[volume(metadata={"resourceVersion": "9"})],
            ),
            Requeue(1.0, "the cache shows an old version of the volume"),
        ),
    ],
)
async def test_no_claim_is_lost_before_its_volume_was_read(
    binder: Binder, expected: Outcome
) -> None:
    """The cache may be older than the binding. A claim that is Lost stays Lost."""
    synced = await binder.sync_claim(claim(COMPLETE, BOUND, volumeName="v"))
    assert (synced.outcome, synced.reads) == (expected, ["v"])
    assert (synced.writes, synced.events) == ([], [])
    lost = claim(COMPLETE, {"phase": "Lost"}, volumeName="v")
    synced = await binder.sync_claim(lost)
    assert (synced.outcome, synced.writes, synced.reads) == (LATER, [], [])


@pytest.mark.parametrize(
    ("reason", "name", "binder"),
    [
        ("ClaimLost", "", Binder()),
        ("ClaimLost", "v", Binder()),
        ("ClaimMisbound", "v", Binder(volume(claimRef=OF_ANOTHER))),
    ],
)
async def test_a_claim_that_is_lost_is_told_so(
    reason: str, name: str, binder: Binder
) -> None:
    """There is one event, after the write."""
    synced = await binder.sync_claim(claim(COMPLETE, BOUND, volumeName=name))
    assert (len(synced.writes), synced.reasons) == (1, [reason])
    assert synced.outcome == LATER


async def test_a_binding_is_settled_when_nothing_is_missing() -> None:
    """There is no event, and no other sync."""
    subject = claim(COMPLETE, BOUND, volumeName="v")
    binder = Binder(volume(phase="Bound", claimRef=BOUND_TO_MINE))
    assert await binder.sync_claim(subject) == Synced(outcome=DONE)


@pytest.mark.parametrize(
    ("problem", "wanted", "offered"),
    [
        ("requested PV is too small", {}, volume(size="1023Mi")),
        ("storageClassName does not match", {"storageClassName": "slow"}, volume()),
        (
            "volumeAttributesClassName does not match",
            {"volumeAttributesClassName": "gold"},
            volume(),
        ),
        ("incompatible volumeMode", {"volumeMode": "Block"}, volume()),
        ("incompatible accessMode", {"accessModes": ["ReadWriteMany"]}, volume()),
        (
            'the volume is marked for deletion "v"',
            {},
            volume(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        ),
    ],
)
async def test_a_claim_is_told_why_it_cannot_have_the_volume_it_asks_for(
    problem: str, wanted: dict[str, Any], offered: Any
) -> None:
    """The reasons are those of checkVolumeSatisfyClaim; the claim is synced again."""
    subject = claim(volumeName="v", **wanted)
    message = f'Cannot bind to requested volume "v": {problem}'
    event = "data", "Warning", "VolumeMismatch", message
    synced = await Binder(offered).sync_claim(subject)
    assert synced == Synced(events=[event], outcome=LATER)


async def test_a_claim_that_waits_for_pods_names_them() -> None:
    """The names are sorted, and the word is plural."""
    binder = Binder(classes=[WAITS], pods=["web-1", "web-0"])
    message = "waiting for pods web-0,web-1 to be scheduled"
    event = "data", "Normal", "WaitForPodScheduled", message
    assert await binder.sync_claim(claim()) == Synced(events=[event], outcome=LATER)


@pytest.mark.parametrize(
    ("subject", "binder", "message"),
    [
        (
            claim(),
            Binder(
                classes=[
                    msgspec.structs.replace(storage_class(), volume_binding_mode=None)
                ]
            ),
            'VolumeBindingMode not set for StorageClass "fast"',
        ),
        (
            claim(COMPLETE, PENDING, volumeName="v"),
            Binder(volume(phase="Bound", claimRef=BOUND_TO_MINE, capacity={})),
            'PersistentVolume "v" is without a storage capacity',
        ),
        (
            claim(selector={"matchExpressions": [{"key": "a", "operator": "Near"}]}),
            Binder(volume()),
            "error creating label selector for claim ns/data: ",
        ),
    ],
)
async def test_the_error_names_an_invalid_object(
    subject: PersistentVolumeClaim, binder: Binder, message: str
) -> None:
    """The sync fails, and is retried."""
    with pytest.raises(SyncError) as caught:
        await binder.sync_claim(subject)
    assert str(caught.value).startswith(message)


async def test_a_claim_without_its_annotation_is_not_bound_to_anothers_volume() -> None:
    """A user has removed the annotation: the sync fails, after an event."""
    subject = claim(BY_CONTROLLER, volumeName="v")
    synced = await Binder(volume(claimRef=OF_ANOTHER)).sync_claim(subject)
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
    subject = claim(
        COMPLETE, {**PENDING, "later": [1]}, volumeName="v", later={"a": None}
    )
    binder = Binder(volume(phase="Bound", claimRef=BOUND_TO_MINE, later=1.5))
    synced = await binder.sync_claim(subject)
    written = msgspec.json.decode(msgspec.json.encode(synced.writes[0][0]))
    assert written["spec"]["later"] == {"a": None}
    assert written["status"]["later"] == [1]


@pytest.mark.parametrize(
    ("provisioner", "message"),
    [
        ("kubernetes.io/nfs", "no provisionable volume plugin matched"),
        *(
            (name, f"no volume plugin matched name: {name}")
            for name in (
                "kubernetes.io/no-provisioner",
                "kubernetes.io/local-volume",
                "kubernetes.io/fc",
                "kubernetes.io/iscsi",
                "kubernetes.io/csi",
            )
        ),
    ],
)
async def test_a_plugin_that_provisions_nothing_is_told_of(
    provisioner: str, message: str
) -> None:
    """Upstream's binder knows the plugins of host paths and NFS only."""
    classes = [storage_class(provisioner=provisioner)]
    synced = await Binder(classes=classes).sync_claim(claim())
    event = "data", "Warning", "ProvisioningFailed", message
    assert synced == Synced(events=[event], outcome=LATER)
