"""The decisions about a claim, as tables of situations."""

from typing import Any

import msgspec
import pytest

from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.meta import annotations_of
from controller_manager.controllers.storage.volumebinder.actions import (
    SETTLED,
    Action,
    Event,
    Finished,
    ReadVolume,
    Write,
)
from controller_manager.controllers.storage.volumebinder.sync_claim import decide_claim
from controller_manager.runtime.outcome import SyncError
from tests.controllers.storage.volumebinder.fixtures import (
    BOUND_TO_MINE,
    BY_CONTROLLER,
    COMPLETE,
    MINE,
    OF_ANOTHER,
    OF_FORMER,
    Snapshot,
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
GCE = "pd.csi.storage.gke.io"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
SELECTED = {"volume.kubernetes.io/selected-node": "n1"}
ASKED = {PROVISIONER: "csi.example.com", BETA_PROVISIONER: "csi.example.com"}
WAITS = storage_class(mode="WaitForFirstConsumer")


def summary(action: Action) -> tuple[Any, ...]:
    """Return the effects of an action, in a form that fits into a table."""
    match action:
        case Write(obj=PersistentVolumeClaim() as written, subresource="status"):
            return ("claim status", msgspec.json.decode(written.raw_status))
        case Write(obj=PersistentVolumeClaim() as written):
            spec, annotations = written.spec, annotations_of(written.metadata)
            return ("claim", spec.volume_name, spec.storage_class_name, annotations)
        case Write(obj=written, subresource="status"):
            return ("volume status", written.metadata.name, written.status.phase)
        case Write(obj=written):
            return (
                "volume",
                written.metadata.name,
                dict(written.metadata.annotations or {}),
            )
        case Finished() as finished:
            return ("finished", *(each.reason for each in finished.events))
    return (action,)


@pytest.mark.parametrize(
    ("subject", "cluster", "expected"),
    [
        # A claim that names no volume.
        (claim(), Snapshot(volume()), ("volume", "v", BY_CONTROLLER)),
        (
            claim(),
            Snapshot(volume(annotations=BY_CONTROLLER, claimRef=BOUND_TO_MINE)),
            ("volume status", "v", "Bound"),
        ),
        (
            claim(),
            Snapshot(
                volume(annotations=BY_CONTROLLER, phase="Bound", claimRef=BOUND_TO_MINE)
            ),
            ("claim", "v", "fast", {**COMPLETE, **BY_CONTROLLER}),
        ),
        (claim(), Snapshot(volume(claimRef=MINE)), ("volume", "v", {})),
        (
            claim(),
            Snapshot(volume(claimRef=OF_FORMER)),
            ("finished", "ProvisioningFailed"),
        ),
        (
            claim(),
            Snapshot(volume(claimRef=OF_ANOTHER)),
            ("finished", "ProvisioningFailed"),
        ),
        (
            claim(),
            Snapshot(volume(phase="Pending")),
            ("finished", "ProvisioningFailed"),
        ),
        (claim(), Snapshot(volume(phase="Failed")), ("finished", "ProvisioningFailed")),
        (
            claim(),
            Snapshot(volume(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})),
            ("finished", "ProvisioningFailed"),
        ),
        # A class that waits for the first consumer.
        (
            claim(),
            Snapshot(volume(), classes=[WAITS]),
            ("finished", "WaitForFirstConsumer"),
        ),
        (
            claim(),
            Snapshot(classes=[WAITS], pods=["p"]),
            ("finished", "WaitForPodScheduled"),
        ),
        (
            claim(),
            Snapshot(volume(claimRef=BOUND_TO_MINE), classes=[WAITS]),
            ("volume status", "v", "Bound"),
        ),
        (
            claim(SELECTED),
            Snapshot(volume(), classes=[WAITS]),
            ("claim", "", "fast", {**SELECTED, **ASKED}),
        ),
        # Provisioning.
        (claim(), Snapshot(classes=[storage_class()]), ("claim", "", "fast", ASKED)),
        (
            claim(ASKED),
            Snapshot(classes=[storage_class()]),
            ("finished", "ExternalProvisioning"),
        ),
        (
            claim(ASKED),
            Snapshot(classes=[storage_class()], provisions=False),
            ("finished",),
        ),
        (
            claim(),
            Snapshot(
                classes=[storage_class(provisioner="kubernetes.io/no-provisioner")]
            ),
            ("finished", "ProvisioningFailed"),
        ),
        (
            claim(),
            Snapshot(classes=[storage_class(provisioner="kubernetes.io/host-path")]),
            ("finished", "ProvisioningFailed"),
        ),
        (
            claim(),
            Snapshot(classes=[storage_class(provisioner="kubernetes.io/gce-pd")]),
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
            Snapshot(),
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
            Snapshot(),
            ("claim", "", "fast", ASKED),
        ),
        # The default class.
        (
            claim(storageClassName=None),
            Snapshot(default=storage_class("std")),
            ("claim", "", "std", {}),
        ),
        (
            claim(
                {"volume.beta.kubernetes.io/storage-class": ""}, storageClassName=None
            ),
            Snapshot(default=storage_class("std")),
            ("finished", "FailedBinding"),
        ),
        (
            claim(storageClassName=""),
            Snapshot(default=storage_class("std")),
            ("finished", "FailedBinding"),
        ),
        (claim(storageClassName=None), Snapshot(), ("finished", "FailedBinding")),
        (
            claim(storageClassName="", status={}),
            Snapshot(),
            ("claim status", PENDING),
        ),
        # A claim that asks for a volume by name.
        (claim(volumeName="v"), Snapshot(), ("finished",)),
        (claim(volumeName="v"), Snapshot(volume()), ("volume", "v", BY_CONTROLLER)),
        (
            claim(volumeName="v"),
            Snapshot(volume(phase="Pending")),
            ("volume", "v", BY_CONTROLLER),
        ),
        (
            claim(volumeName="v"),
            Snapshot(volume(size="1Mi")),
            ("finished", "VolumeMismatch"),
        ),
        (claim(volumeName="v"), Snapshot(volume(claimRef=MINE)), ("volume", "v", {})),
        (
            claim(volumeName="v"),
            Snapshot(volume(claimRef=OF_ANOTHER)),
            ("finished", "FailedBinding"),
        ),
        (
            claim(volumeName="v"),
            Snapshot(volume(claimRef=OF_FORMER)),
            ("finished", "FailedBinding"),
        ),
        (
            claim(BY_CONTROLLER, volumeName="v"),
            Snapshot(volume(claimRef=OF_ANOTHER)),
            ("finished", "FailedBinding"),
        ),
        (
            claim(volumeName="v"),
            Snapshot(volume(phase="Bound", claimRef=BOUND_TO_MINE)),
            ("claim", "v", "fast", COMPLETE),
        ),
        # A claim that was bound once.
        (claim(COMPLETE, BOUND), Snapshot(), ("claim status", {"phase": "Lost"})),
        (
            claim(COMPLETE, BOUND, volumeName="v"),
            Snapshot(),
            ("claim status", {"phase": "Lost"}),
        ),
        (claim(COMPLETE, {"phase": "Lost"}, volumeName="v"), Snapshot(), ("finished",)),
        (
            claim(COMPLETE, BOUND, volumeName="v"),
            Snapshot(volume(claimRef=OF_ANOTHER)),
            ("claim status", {"phase": "Lost"}),
        ),
        (
            claim(COMPLETE, BOUND, volumeName="v"),
            Snapshot(volume(claimRef=OF_FORMER)),
            ("claim status", {"phase": "Lost"}),
        ),
        (
            claim(COMPLETE, BOUND, volumeName="v"),
            Snapshot(volume()),
            ("volume", "v", BY_CONTROLLER),
        ),
        (
            claim(COMPLETE, PENDING, volumeName="v"),
            Snapshot(volume(phase="Bound", claimRef=BOUND_TO_MINE)),
            ("claim status", BOUND),
        ),
        (
            claim(COMPLETE, {"phase": "Lost"}, volumeName="v"),
            Snapshot(volume(phase="Bound", claimRef=BOUND_TO_MINE)),
            ("claim status", BOUND),
        ),
        (
            claim(COMPLETE, BOUND, volumeName="v"),
            Snapshot(volume(phase="Bound", claimRef=BOUND_TO_MINE)),
            ("finished",),
        ),
        # The file system may be smaller than its device, once the claim is Bound.
        (
            claim(
                COMPLETE, {**BOUND, "capacity": {"storage": "512Mi"}}, volumeName="v"
            ),
            Snapshot(volume(phase="Bound", claimRef=BOUND_TO_MINE)),
            ("finished",),
        ),
        (
            claim(COMPLETE, PENDING, volumeName="v"),
            Snapshot(
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
            Snapshot(
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
def test_the_next_action_for_a_claim(
    subject: PersistentVolumeClaim, cluster: Snapshot, expected: tuple[Any, ...]
) -> None:
    """The table has all states of a claim and its volume."""
    assert summary(decide_claim(subject, cluster, is_current=True)) == expected


@pytest.mark.parametrize("offered", [(), (volume(claimRef=OF_ANOTHER),)])
def test_no_claim_is_lost_before_its_volume_was_read(offered: tuple[Any, ...]) -> None:
    """The cache may be older than the binding. A claim that is Lost stays Lost."""
    subject = claim(COMPLETE, BOUND, volumeName="v")
    assert decide_claim(subject, Snapshot(*offered)) == ReadVolume("v")
    lost = claim(COMPLETE, {"phase": "Lost"}, volumeName="v")
    assert decide_claim(lost, Snapshot(*offered)) == Finished(requeue=True)


def test_a_binding_is_settled_when_nothing_is_missing() -> None:
    """There is no event, and no other sync."""
    subject = claim(COMPLETE, BOUND, volumeName="v")
    cluster = Snapshot(volume(phase="Bound", claimRef=BOUND_TO_MINE))
    assert decide_claim(subject, cluster) == SETTLED


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
def test_a_claim_is_told_why_it_cannot_have_the_volume_it_asks_for(
    problem: str, wanted: dict[str, Any], offered: Any
) -> None:
    """The reasons are those of checkVolumeSatisfyClaim; the claim is synced again."""
    subject = claim(volumeName="v", **wanted)
    message = f'Cannot bind to requested volume "v": {problem}'
    event = Event(subject, "Warning", "VolumeMismatch", message)
    assert decide_claim(subject, Snapshot(offered)) == Finished((event,), requeue=True)


def test_a_claim_that_waits_for_pods_names_them() -> None:
    """The names are sorted, and the word is plural."""
    subject, cluster = claim(), Snapshot(classes=[WAITS], pods=["web-1", "web-0"])
    message = "waiting for pods web-0,web-1 to be scheduled"
    event = Event(subject, "Normal", "WaitForPodScheduled", message)
    assert decide_claim(subject, cluster) == Finished((event,), requeue=True)


@pytest.mark.parametrize(
    ("subject", "cluster", "message"),
    [
        (
            claim(),
            Snapshot(
                classes=[
                    msgspec.structs.replace(storage_class(), volume_binding_mode=None)
                ]
            ),
            'VolumeBindingMode not set for StorageClass "fast"',
        ),
        (
            claim(COMPLETE, PENDING, volumeName="v"),
            Snapshot(volume(phase="Bound", claimRef=BOUND_TO_MINE, capacity={})),
            'PersistentVolume "v" is without a storage capacity',
        ),
        (
            claim(selector={"matchExpressions": [{"key": "a", "operator": "Near"}]}),
            Snapshot(volume()),
            "error creating label selector for claim ns/data: ",
        ),
    ],
)
def test_the_error_names_an_invalid_object(
    subject: PersistentVolumeClaim, cluster: Snapshot, message: str
) -> None:
    """The sync fails, and is retried."""
    with pytest.raises(SyncError) as caught:
        decide_claim(subject, cluster)
    assert str(caught.value).startswith(message)


def test_a_claim_without_its_annotation_is_not_bound_to_a_volume_of_another() -> None:
    """A user has removed the annotation: the sync fails, after an event."""
    subject = claim(BY_CONTROLLER, volumeName="v")
    action = decide_claim(subject, Snapshot(volume(claimRef=OF_ANOTHER)))
    assert isinstance(action, Finished)
    assert action.error == (
        'invalid binding of claim "ns/data" to volume "v": volume already claimed by '
        '"ns/other"'
    )


def test_unknown_fields_stay() -> None:
    """They may be of a later API version, in spec and status; each write keeps them."""
    subject = claim(
        COMPLETE, {**PENDING, "later": [1]}, volumeName="v", later={"a": None}
    )
    cluster = Snapshot(volume(phase="Bound", claimRef=BOUND_TO_MINE, later=1.5))
    action = decide_claim(subject, cluster)
    assert isinstance(action, Write)
    written = msgspec.json.decode(msgspec.json.encode(action.obj))
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
def test_a_plugin_that_provisions_nothing_is_told_of(
    provisioner: str, message: str
) -> None:
    """Upstream's binder knows the plugins of host paths and NFS only."""
    classes = [storage_class(provisioner=provisioner)]
    action = decide_claim(claim(), Snapshot(classes=classes))
    assert isinstance(action, Finished)
    assert [(each.reason, each.message) for each in action.events] == [
        ("ProvisioningFailed", message)
    ]
