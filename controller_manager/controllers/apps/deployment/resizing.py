"""Makes patches of replica sets from a plan of sizes."""

from typing import Any

from controller_manager.api.apps.v1 import Deployment
from controller_manager.api.meta import annotations_of
from controller_manager.api.workloads import desired_replicas
from controller_manager.controllers.apps.deployment.actions import (
    PatchReplicaSet,
    scaling_event,
)
from controller_manager.controllers.apps.deployment.revisions import (
    changed_annotations,
    size_annotations,
)
from controller_manager.controllers.apps.deployment.scaling import (
    Plan,
    Resize,
    max_total,
)


def size_annotations_of(deployment: Deployment) -> dict[str, str]:
    """Return the size annotations that a replica set gets when it is scaled."""
    return size_annotations(desired_replicas(deployment), max_total(deployment))


def resize_patches(deployment: Deployment, plan: Plan) -> tuple[PatchReplicaSet, ...]:
    """Return the patches of a plan; none for a replica set without a change."""
    patches = (_patch(deployment, resize) for resize in plan)
    return tuple(patch for patch in patches if patch is not None)


def _patch(deployment: Deployment, resize: Resize) -> PatchReplicaSet | None:
    replica_set = resize.replica_set
    before, after = desired_replicas(replica_set), resize.replicas
    current = annotations_of(replica_set.metadata)
    patch: dict[str, Any] = {}
    if changed := changed_annotations(current, size_annotations_of(deployment)):
        patch["metadata"] = {"annotations": changed}
    if before != after:
        patch["spec"] = {"replicas": after}
    if not patch:
        return None
    return PatchReplicaSet(
        replica_set,
        patch,
        wanted=f"size {after}",
        event=scaling_event(replica_set, before, after),
    )
