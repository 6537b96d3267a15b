"""The pods that use a claim."""

from typing import Any

import pytest

from controller_manager.api.core.v1 import (
    EphemeralVolumeSource,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodMeta,
    PodSpec,
    PodStatus,
    PodVolume,
)
from controller_manager.api.meta import OwnerReference, PartialMetadata, PartialObject
from controller_manager.control.pod_indexes import PODS_BY_CLAIM, claim_names
from controller_manager.controllers.storage.claimprotection.pods import uses

DELETED = "2026-01-01T00:00:00Z"
DATA = PodVolume(
    name="data",
    persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="claim"),
)
SCRATCH = PodVolume(name="scratch", ephemeral=EphemeralVolumeSource())
OTHER = PodVolume(name="config")


def pod(*volumes: PodVolume, node: str = "n", phase: str = "", **metadata: Any) -> Pod:
    """Return a pod "web" with these volumes."""
    return Pod(
        metadata=PodMeta(name="web", namespace="ns", uid="pod", **metadata),
        spec=PodSpec(node_name=node, volumes=volumes or None),
        status=PodStatus(phase=phase),
    )


def claim(name: str = "claim", owner: str = "", **metadata: Any) -> PartialObject:
    """Return a claim, controlled by the owner of that uid if there is one."""
    owners = (OwnerReference(uid=owner, controller=True),) if owner else None
    return PartialObject(
        metadata=PartialMetadata(
            name=name, namespace="ns", owner_references=owners, **metadata
        )
    )


@pytest.mark.parametrize(
    ("user", "used", "is_used"),
    [
        (pod(), claim(), False),
        (pod(OTHER, DATA), claim(), True),
        (pod(OTHER, DATA), claim("other"), False),
        (pod(DATA, node=""), claim(), False),
        (pod(DATA, phase="Succeeded"), claim(), True),
        (pod(DATA, deletion_timestamp=DELETED), claim(), True),
        (
            pod(DATA, deletion_timestamp=DELETED, deletion_grace_period_seconds=0),
            claim(),
            True,
        ),
        (
            pod(DATA, deletion_timestamp=DELETED, deletion_grace_period_seconds=0),
            claim(owner="pod"),
            False,
        ),
        (pod(DATA, deletion_timestamp=DELETED), claim(owner="pod"), True),
        (pod(SCRATCH), claim("web-scratch", "pod"), True),
        (pod(SCRATCH), claim("web-scratch", "other"), False),
        (pod(SCRATCH), claim("web-scratch"), False),
        (pod(SCRATCH, node=""), claim("web-scratch", "pod"), False),
        (
            pod(SCRATCH, deletion_timestamp=DELETED, deletion_grace_period_seconds=30),
            claim("web-scratch", "pod"),
            True,
        ),
        (
            pod(SCRATCH, deletion_timestamp=DELETED, deletion_grace_period_seconds=0),
            claim("web-scratch", "pod"),
            False,
        ),
    ],
)
def test_a_pod_uses_a_claim(user: Pod, used: PartialObject, *, is_used: bool) -> None:
    """It must have a node, and own the claim of an ephemeral volume."""
    assert uses(user, used) is is_used


def test_a_pod_names_its_claims_also_if_it_does_not_use_them() -> None:
    """The claim of an ephemeral volume is named after the pod and the volume."""
    user = pod(DATA, OTHER, SCRATCH, node="")
    assert list(claim_names(user)) == ["claim", "web-scratch"]
    assert list(PODS_BY_CLAIM.function(user)) == ["ns/claim", "ns/web-scratch"]
