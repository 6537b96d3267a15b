"""The identity of a stateful set's pods: ordinals, names, labels and claims.

Claims outlive their pods. The garbage collector deletes a claim when its owners are
gone, so persistentVolumeClaimRetentionPolicy decides about the owners. The set owns a
claim that must be deleted with the set. A pod owns a claim that must be deleted when
the pod is scaled away, as soon as the pod is outside of the set's ordinals:

=========== =========== ==================== ====================
whenDeleted whenScaled  owner while wanted   owner once condemned
=========== =========== ==================== ====================
Retain      Retain      none                 none
Delete      Retain      the set              the set
Retain      Delete      none                 the pod
Delete      Delete      the set              the pod
=========== =========== ==================== ====================

Upstream: stateful_set_utils.go.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.apps.v1 import STATEFUL_SETS, StatefulSet, desired_replicas
from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import (
    AnyResource,
    KubeObject,
    OwnerReference,
    is_deleting,
    labels_of,
    owned_by,
)
from controller_manager.control.controller_history import POD_REVISION_LABEL

POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
"""The label with the pod's own name, so that a service can select one pod."""

POD_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"
"""The label with the pod's ordinal."""

_NAME: Final = re.compile(r"(.+)-(0|[1-9][0-9]{0,9})", re.DOTALL)
_HIGHEST: Final = 2**31 - 1
_DELETE: Final = "Delete"


def parent_and_ordinal(name: str) -> tuple[str, int] | None:
    """Return the name of the set and the ordinal that a pod's name consists of."""
    # Unlike upstream, not for ``web-01``: it would take the place of ``web-1``.
    match = _NAME.fullmatch(name)
    if match is None or int(match[2]) > _HIGHEST:
        return None
    return match[1], int(match[2])


def ordinal_of(stateful_set: StatefulSet, pod: KubeObject) -> int | None:
    """Return the ordinal of a pod, `None` if the set does not give its name."""
    found = parent_and_ordinal(pod.metadata.name)
    if found is None or found[0] != stateful_set.metadata.name:
        return None
    return found[1]


def ordinals(stateful_set: StatefulSet) -> range:
    """Return the ordinals that the set wants, in ascending order."""
    configured = stateful_set.spec.ordinals
    start = configured.start if configured is not None else 0
    return range(start, start + desired_replicas(stateful_set))


def pod_name(stateful_set: StatefulSet, ordinal: int) -> str:
    """Return the name of the pod with an ordinal."""
    return f"{stateful_set.metadata.name}-{ordinal}"


def claim_name(stateful_set: StatefulSet, template: str, ordinal: int) -> str:
    """Return the name of the claim that a template makes for the pod of an ordinal."""
    return f"{template}-{stateful_set.metadata.name}-{ordinal}"


def claim_templates(stateful_set: StatefulSet) -> Iterable[PersistentVolumeClaim]:
    """Return the templates of the set's claims; of two with one name, the last."""
    # The name keeps the place of the first one, so the order of a pod's volumes does
    # not change.
    templates = stateful_set.spec.volume_claim_templates or ()
    return {each.metadata.name: each for each in templates}.values()


def claim_prefixes(stateful_set: StatefulSet) -> Iterable[str]:
    """Yield the names of the set's claims without their ordinals, as index keys."""
    metadata = stateful_set.metadata
    for template in claim_templates(stateful_set):
        yield f"{metadata.namespace}/{template.metadata.name}-{metadata.name}"


def identity_labels(name: str, ordinal: int) -> Mapping[str, str]:
    """Return the labels by which a pod shows its identity."""
    return {POD_NAME_LABEL: name, POD_INDEX_LABEL: str(ordinal)}


def has_identity(pod: Pod) -> bool:
    """Tell whether the pod has the label with its name."""
    # A missing or wrong pod index alone is not repaired, as upstream.
    return labels_of(pod).get(POD_NAME_LABEL) == pod.metadata.name


def revision_of(pod: Pod) -> str:
    """Return the name of the revision that a pod was made from, empty for none."""
    return labels_of(pod).get(POD_REVISION_LABEL, "")


Claims = Mapping[str, KubeObject]
"""The cached claims of a set, by name."""

References = tuple[OwnerReference, ...]


class ClaimChanges(Struct, frozen=True):
    """The changes that the claims of one pod need.

    `missing` claims are created. If `deleting` names a claim, the pod must wait until
    it is gone. The owners of the claims in `owners` are corrected. The claims in
    `conflicts` have another controller, so the retention policy does not apply to them.
    """

    missing: tuple[PersistentVolumeClaim, ...] = ()
    deleting: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()

    @property
    def is_needed(self) -> bool:
        """True if a claim must be created, awaited or corrected."""
        return bool(self.missing or self.deleting or self.owners)

    def of_owners(self) -> "ClaimChanges":
        """Return the changes of owners alone."""
        return ClaimChanges(owners=self.owners, conflicts=self.conflicts)


def claim_names(stateful_set: StatefulSet, ordinal: int) -> tuple[str, ...]:
    """Return the names of the claims of a pod, in the order of their templates."""
    return tuple(
        claim_name(stateful_set, template.metadata.name, ordinal)
        for template in claim_templates(stateful_set)
    )


def claim_changes(
    stateful_set: StatefulSet, ordinal: int, claims: Claims, pod: Pod | None
) -> ClaimChanges:
    """Return the changes that the claims of a pod, or of one to create, need."""
    # A claim that the pod does not use is not created, nor awaited. Its owners are
    # corrected all the same.
    names = claim_names(stateful_set, ordinal)
    present = [claims[name] for name in names if name in claims]
    missing = missing_claims(stateful_set, ordinal, claims)
    used = names if pod is None else used_claims(pod)
    owned = (*present, *missing) if pod is None else present
    return ClaimChanges(
        missing=tuple(each for each in missing if each.metadata.name in used),
        deleting=tuple(
            each.metadata.name
            for each in present
            if is_deleting(each) and each.metadata.name in used
        ),
        owners=tuple(
            each.metadata.name
            for each in present
            if pod is not None and corrected_owners(each, stateful_set, pod) is not None
        ),
        conflicts=tuple(
            each.metadata.name
            for each in owned
            if has_conflict(each, stateful_set, pod)
        ),
    )


def missing_claims(
    stateful_set: StatefulSet, ordinal: int, present: Claims
) -> tuple[PersistentVolumeClaim, ...]:
    """Return the claims that do not exist yet (getPersistentVolumeClaims)."""
    # Of the set's labels only matchLabels of the selector are copied, as upstream.
    selector = stateful_set.spec.selector
    selected = (selector.match_labels if selector is not None else None) or {}
    claims = []
    for template in claim_templates(stateful_set):
        name = claim_name(stateful_set, template.metadata.name, ordinal)
        if name in present:
            continue
        labels = {**(template.metadata.labels or {}), **selected}
        metadata = replace(
            template.metadata,
            name=name,
            namespace=stateful_set.metadata.namespace,
            labels=labels or None,
            owner_references=_owners_of_new(template, stateful_set) or None,
        )
        claims.append(replace(template, metadata=metadata))
    return tuple(claims)


def will_be_deleted(claim: KubeObject, stateful_set: StatefulSet, pod: str) -> bool:
    """Tell whether the garbage collector is about to delete a claim."""
    # Such a claim belongs to a pod that was scaled away, or to an earlier set of the
    # same name. A new pod must not start with it, because it is deleted with its owner.
    # (Upstream waits only for claims of pods.)
    return _is_stale(claim, stateful_set, STATEFUL_SETS) or (
        _deletes_scaled(stateful_set)
        and any(_names(each, PODS, pod) for each in owners_of(claim))
    )


def lacks_new_claims(stateful_set: StatefulSet, pod: Pod) -> bool:
    """Tell whether a pod was made for an earlier set, with other claim templates."""
    # The volumes of a pod cannot be changed, so only another pod has the new claims. A
    # pod that this set has made is never such a pod. If a webhook has removed a claim
    # from it, the next pod would lack that claim, too.
    if not stateful_set.spec.volume_claim_templates:
        return False
    began = stateful_set.metadata.creation_timestamp or ""
    # API servers write all times in one form: as texts they sort as in time.
    if (pod.metadata.creation_timestamp or "") > began:
        return False
    ordinal = ordinal_of(stateful_set, pod)
    if ordinal is None:
        return True
    return not set(claim_names(stateful_set, ordinal)) <= used_claims(pod)


def used_claims(pod: Pod) -> set[str]:
    """Return the names of the claims that are volumes of a pod."""
    return {
        volume.persistent_volume_claim.claim_name
        for volume in pod.spec.volumes or ()
        if volume.persistent_volume_claim is not None
    }


def corrected_owners(
    claim: KubeObject, stateful_set: StatefulSet, pod: Pod
) -> References | None:
    """Return the owners that a claim must get, `None` if it has them already."""
    # Owners that are neither the set nor the pod stay. A claim with a reference to an
    # earlier set or pod of the same name is not changed: the garbage collector deletes
    # it. Upstream: isClaimOwnerUpToDate and updateClaimOwnerRefForSetAndPod.
    present = owners_of(claim)
    if _is_stale(claim, stateful_set, STATEFUL_SETS) or _is_stale(claim, pod, PODS):
        return None
    ours = {stateful_set.metadata.uid, pod.metadata.uid}
    others = tuple(each for each in present if each.uid not in ours)
    mine = tuple(each for each in present if each.uid in ours)
    conflict = has_conflict(claim, stateful_set, pod)
    wanted = () if conflict else _owners(stateful_set, pod)
    if set(map(_essence, mine)) == set(map(_essence, wanted)):
        return None
    return (*others, *wanted)


def has_conflict(claim: KubeObject, stateful_set: StatefulSet, pod: Pod | None) -> bool:
    """Tell whether another controller owns a claim that the policy is about."""
    if not _deletes_scaled(stateful_set) and not _deletes_deleted(stateful_set):
        return False
    ours = {stateful_set.metadata.uid, pod.metadata.uid if pod else ""}
    return any(each.controller and each.uid not in ours for each in owners_of(claim))


def owners_of(claim: KubeObject) -> References:
    """Return the owners that a claim has."""
    return claim.metadata.owner_references or ()


def _owners_of_new(template: KubeObject, stateful_set: StatefulSet) -> References:
    # The owners in its template stay: operators write them, so that the claims are
    # deleted with an object of the operator. If one of them is a controller, the set
    # does not become an owner, as for any claim.
    present = owners_of(template)
    if has_conflict(template, stateful_set, None):
        return present
    others = (each for each in present if each.uid != stateful_set.metadata.uid)
    return (*others, *_owners_while_wanted(stateful_set))


def _owners(stateful_set: StatefulSet, pod: Pod) -> References:
    is_wanted = ordinal_of(stateful_set, pod) in ordinals(stateful_set)
    if _deletes_scaled(stateful_set) and not is_wanted:
        return owned_by(pod, PODS)
    return _owners_while_wanted(stateful_set)


def _owners_while_wanted(stateful_set: StatefulSet) -> References:
    if not _deletes_deleted(stateful_set):
        return ()
    return owned_by(stateful_set, STATEFUL_SETS)


def _deletes_scaled(stateful_set: StatefulSet) -> bool:
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    return policy is not None and policy.when_scaled == _DELETE


def _deletes_deleted(stateful_set: StatefulSet) -> bool:
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    return policy is not None and policy.when_deleted == _DELETE


def _is_stale(claim: KubeObject, owner: KubeObject, resource: AnyResource) -> bool:
    """Tell whether a claim is owned by an earlier object of the owner's name."""
    return any(
        _names(each, resource, owner.metadata.name) and each.uid != owner.metadata.uid
        for each in owners_of(claim)
    )


def _names(reference: OwnerReference, resource: AnyResource, name: str) -> bool:
    named = reference.api_version, reference.kind, reference.name
    return named == (resource.api_version, resource.kind, name)


def _essence(reference: OwnerReference) -> tuple[str, bool]:
    return reference.uid, bool(reference.controller)
