"""Claims that the scheduler makes for the extended resources of a pod.

The pod is charged for these resources, too. Upstream: getVerifiedPodUsage of
pkg/quota/v1/evaluator/core/resource_claims.go.
"""

from collections.abc import Iterable

from controller_manager.api.core.v1 import Pod
from controller_manager.api.dynamicresources.v1 import ResourceClaim
from controller_manager.api.owners import controller_of


def pod_of(claim: ResourceClaim) -> tuple[str, str]:
    """Return name and uid of the pod that a claim was made for, "" and "" for none."""
    annotations = claim.metadata.annotations
    owner = controller_of(claim)
    if (
        annotations is None
        or annotations.extended_resource_claim != "true"
        or owner is None
        or (owner.api_version, owner.kind) != ("v1", "Pod")
    ):
        return "", ""
    return owner.name, owner.uid


def stands_for(claim: ResourceClaim, pod: Pod, claims: Iterable[ResourceClaim]) -> bool:
    """Tell whether a claim is the one claim of a pod that is charged with the pod.

    The status of the pod names it. Until then it is the oldest of the `claims` that
    were made for the pod, and of those of one age the first by name.
    """
    stated = pod.status.extended_resource_claim_status
    if stated is not None:
        return stated.resource_claim_name == claim.metadata.name
    return all(_age(claim) <= _age(other) for other in claims)


def _age(claim: ResourceClaim) -> tuple[str, str]:
    return claim.metadata.creation_timestamp or "", claim.metadata.name
