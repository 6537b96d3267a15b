"""The claims of ephemeral volumes: pure functions."""

import pytest
from msgspec import Raw

from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.v1 import (
    ClaimTemplate,
    EphemeralVolumeSource,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodMeta,
    PodSpec,
    PodVolume,
)
from controller_manager.api.meta import (
    ObjectMeta,
    OwnerReference,
    PartialMetadata,
    PartialObject,
)
from controller_manager.controllers.storage.ephemeralvolume.controller import (
    claim_of,
    conflict,
    ephemeral_volumes,
    needs_claims,
)

SPEC = Raw(b'{"accessModes":["ReadWriteOnce"]}')
TEMPLATE = ClaimTemplate(
    metadata=ObjectMeta(labels={"x": "y"}, annotations={"a": "b"}), spec=SPEC
)
SCRATCH = PodVolume(
    name="scratch", ephemeral=EphemeralVolumeSource(volume_claim_template=TEMPLATE)
)
BARE = PodVolume(name="bare", ephemeral=EphemeralVolumeSource())
DATA = PodVolume(
    name="data",
    persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="claim"),
)
OWNER = OwnerReference(
    api_version="v1",
    kind="Pod",
    name="web",
    uid="pod",
    controller=True,
    block_owner_deletion=True,
)


def pod(*volumes: PodVolume, deleted: str | None = None) -> Pod:
    """Return the pod "web" with these volumes."""
    metadata = PodMeta(
        name="web", namespace="ns", uid="pod", deletion_timestamp=deleted
    )
    return Pod(metadata=metadata, spec=PodSpec(volumes=volumes or None))


def test_a_claim_is_made_from_the_template_and_owned_by_the_pod() -> None:
    """Its labels, annotations and spec are the template's."""
    metadata = ObjectMeta(
        name="web-scratch",
        namespace="ns",
        labels={"x": "y"},
        annotations={"a": "b"},
        owner_references=(OWNER,),
    )
    expected = PersistentVolumeClaim(metadata=metadata, raw_spec=SPEC)
    assert claim_of(pod(SCRATCH), SCRATCH) == expected


def test_a_volume_without_a_template_makes_an_empty_claim() -> None:
    """The API server refuses such pods, and would refuse the claim."""
    metadata = ObjectMeta(name="web-bare", namespace="ns", owner_references=(OWNER,))
    expected = PersistentVolumeClaim(metadata=metadata)
    assert claim_of(pod(BARE), BARE) == expected


@pytest.mark.parametrize(
    ("of", "is_needed"),
    [
        (pod(), False),
        (pod(DATA), False),
        (pod(DATA, SCRATCH), True),
        (pod(SCRATCH, deleted="2026-01-01T00:00:00Z"), False),
    ],
)
def test_only_pods_with_ephemeral_volumes_need_claims(
    of: Pod, *, is_needed: bool
) -> None:
    """Pods that are being deleted need none."""
    assert needs_claims(of) is is_needed


def test_claims_are_made_for_ephemeral_volumes_only() -> None:
    """The claims have the order of the volumes."""
    assert list(ephemeral_volumes(pod(SCRATCH, DATA, BARE))) == [SCRATCH, BARE]


@pytest.mark.parametrize(
    ("owners", "problem"),
    [
        ((OWNER,), ""),
        (None, "PVC ns/c was not created for pod ns/web (pod is not owner)"),
        (
            (OwnerReference(kind="Pod", name="web", uid="former", controller=True),),
            "PVC ns/c was not created for pod ns/web (pod is not owner)",
        ),
        (
            (OwnerReference(kind="Pod", name="web", uid="pod"),),
            "PVC ns/c was not created for pod ns/web (pod is not owner)",
        ),
    ],
)
def test_a_claim_is_the_pods_only_if_the_pod_controls_it(
    owners: tuple[OwnerReference, ...] | None, problem: str
) -> None:
    """An earlier pod of the same name is another pod."""
    metadata = PartialMetadata(name="c", namespace="ns", owner_references=owners)
    assert conflict(pod(SCRATCH), PartialObject(metadata=metadata)) == problem
