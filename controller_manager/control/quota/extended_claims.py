"""Claims that the scheduler makes for the extended resources of a pod.

Quotas charge the pod for these resources as well. Upstream: getVerifiedPodUsage of
pkg/quota/v1/evaluator/core/resource_claims.go.
"""

from collections.abc import Iterable

from controller_manager.api.core.v1 import Pod
from controller_manager.api.dynamicresources.v1 import ResourceClaim
from controller_manager.api.owners import controller_of


def pod_of(claim: ResourceClaim) -> tuple[str, str]:
    """Return name and uid of the pod for which a claim was made, "" and "" for none."""
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
    """Tell whether a claim is the one for whose devices quotas charge its pod already.

    The status of the pod names this claim. Until then it is the oldest of the `claims`
    that were made for the pod, and the first by name of claims of one age.
    """
    stated = pod.status.extended_resource_claim_status
    if stated is not None:
        return stated.resource_claim_name == claim.metadata.name
    return all(_age(claim) <= _age(other) for other in claims)


def _age(claim: ResourceClaim) -> tuple[str, str]:
    return claim.metadata.creation_timestamp or "", claim.metadata.name
