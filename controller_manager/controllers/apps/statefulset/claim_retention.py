"""The owners of a pod's claims (persistentVolumeClaimRetentionPolicy).

The garbage collector deletes a claim when its owners are gone. So the set owns a claim
that must be deleted with the set. A pod owns a claim that must be deleted when the pod
is scaled away, as soon as the pod is outside of the set's ordinals:

=========== =========== ==================== ====================
whenDeleted whenScaled  owner while wanted   owner once condemned
=========== =========== ==================== ====================
Retain      Retain      none                 none
Delete      Retain      the set              the set
Retain      Delete      none                 the pod
Delete      Delete      the set              the pod
=========== =========== ==================== ====================

Upstream: isClaimOwnerUpToDate and updateClaimOwnerRefForSetAndPod of
stateful_set_utils.go.
"""

from typing import Final

from controller_manager.api.apps.v1 import STATEFUL_SETS, StatefulSet
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import KubeObject, OwnerReference
from controller_manager.api.owners import controller_reference
from controller_manager.api.resource import AnyResource

from .identity import ordinal_of, ordinals

DELETE: Final = "Delete"

References = tuple[OwnerReference, ...]


def deletes_scaled(stateful_set: StatefulSet) -> bool:
    """Tell whether claims of pods that are scaled away are deleted."""
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    return policy is not None and policy.when_scaled == DELETE


def deletes_deleted(stateful_set: StatefulSet) -> bool:
    """Tell whether claims are deleted with the set."""
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    return policy is not None and policy.when_deleted == DELETE


def owners_of_new(template: KubeObject, stateful_set: StatefulSet) -> References:
    """Return the owners of a claim that is created for a wanted pod.

    The owners in its template stay: operators write them, so that the claims are
    deleted with an object of the operator. If one of them is a controller, the set does
    not become an owner, as for any claim.
    """
    present = template.metadata.owner_references or ()
    if has_conflict(template, stateful_set, None):
        return present
    others = (each for each in present if each.uid != stateful_set.metadata.uid)
    return (*others, *_owners_while_wanted(stateful_set))


def corrected_owners(
    claim: KubeObject, stateful_set: StatefulSet, pod: Pod
) -> References | None:
    """Return the owners that a claim must get, `None` if it has them already.

    Owners that are neither the set nor the pod stay. A claim with a reference to an
    earlier set or pod of the same name is not changed: the garbage collector deletes
    it.
    """
    present = claim.metadata.owner_references or ()
    if is_stale(claim, stateful_set, STATEFUL_SETS) or is_stale(claim, pod, PODS):
        return None
    ours = {stateful_set.metadata.uid, pod.metadata.uid}
    others = tuple(each for each in present if each.uid not in ours)
    mine = tuple(each for each in present if each.uid in ours)
    wanted = (
        () if has_conflict(claim, stateful_set, pod) else _owners(stateful_set, pod)
    )
    if {_essence(each) for each in mine} == {_essence(each) for each in wanted}:
        return None
    return (*others, *wanted)


def has_conflict(claim: KubeObject, stateful_set: StatefulSet, pod: Pod | None) -> bool:
    """Tell whether another controller owns a claim, although there is a policy.

    The policy is not applied to such a claim. Without a policy, a claim may have any
    controller. `pod` is `None` if it does not exist yet.
    """
    if not deletes_scaled(stateful_set) and not deletes_deleted(stateful_set):
        return False
    ours = {stateful_set.metadata.uid, pod.metadata.uid if pod else ""}
    return any(
        each.controller and each.uid not in ours
        for each in claim.metadata.owner_references or ()
    )


def is_stale(claim: KubeObject, owner: KubeObject, resource: AnyResource) -> bool:
    """Tell whether a claim is owned by an earlier object of the owner's name."""
    return any(
        names(each, resource, owner.metadata.name) and each.uid != owner.metadata.uid
        for each in claim.metadata.owner_references or ()
    )


def is_owned_by_former_pod(claim: KubeObject, name: str) -> bool:
    """Tell whether a pod of that name, which is gone, owns the claim."""
    return any(
        names(each, PODS, name) for each in claim.metadata.owner_references or ()
    )


def names(reference: OwnerReference, resource: AnyResource, name: str) -> bool:
    """Tell whether an owner reference is to the object of that kind and name."""
    return (reference.api_version, reference.kind, reference.name) == (
        resource.api_version,
        resource.kind,
        name,
    )


def _owners(stateful_set: StatefulSet, pod: Pod) -> References:
    is_wanted = ordinal_of(stateful_set, pod) in ordinals(stateful_set)
    if deletes_scaled(stateful_set) and not is_wanted:
        return (_reference(pod, PODS),)
    return _owners_while_wanted(stateful_set)


def _owners_while_wanted(stateful_set: StatefulSet) -> References:
    if not deletes_deleted(stateful_set):
        return ()
    return (_reference(stateful_set, STATEFUL_SETS),)


def _reference(owner: KubeObject, resource: AnyResource) -> OwnerReference:
    return controller_reference(owner, resource.api_version, resource.kind)


def _essence(reference: OwnerReference) -> tuple[str, bool]:
    return reference.uid, bool(reference.controller)
