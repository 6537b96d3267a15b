"""The claims of a stateful set's pods, made from its templates.

Upstream: getPersistentVolumeClaims of stateful_set_utils.go and
createPersistentVolumeClaims of stateful_pod_control.go.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from controller_manager.api.apps.v1 import StatefulSet
from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import KubeObject, is_deleting

from .claim_retention import owners_of_new
from .identity import claim_name, claim_templates, ordinal_of

Claims = Mapping[str, KubeObject]
"""The cached claims of a set, by name."""


def claim_names(stateful_set: StatefulSet, ordinal: int) -> tuple[str, ...]:
    """Return the names of the claims of a pod, in the order of their templates."""
    return tuple(
        claim_name(stateful_set, template.metadata.name, ordinal)
        for template in claim_templates(stateful_set)
    )


def missing_claims(
    stateful_set: StatefulSet, ordinal: int, present: Claims
) -> tuple[PersistentVolumeClaim, ...]:
    """Return the claims of a pod that do not exist yet."""
    return tuple(
        _made_from(template, stateful_set, ordinal)
        for template in claim_templates(stateful_set)
        if claim_name(stateful_set, template.metadata.name, ordinal) not in present
    )


def deleting_claims(
    stateful_set: StatefulSet, ordinal: int, present: Claims
) -> tuple[str, ...]:
    """Return the names of a pod's claims that are being deleted."""
    return tuple(
        name
        for name in claim_names(stateful_set, ordinal)
        if name in present and is_deleting(present[name])
    )


def lacks_new_claims(stateful_set: StatefulSet, pod: Pod) -> bool:
    """Tell whether a pod was made for an earlier set, with other claim templates.

    The volumes of a pod cannot be changed, so only another pod has the new claims. A
    pod that this set has made is never such a pod. If a webhook has removed a claim
    from it, the next pod would lack that claim, too.
    """
    if not stateful_set.spec.volume_claim_templates:
        return False
    began = stateful_set.metadata.creation_timestamp or ""
    # API servers write all times in one form: as texts they sort as in time.
    if (pod.metadata.creation_timestamp or "") > began:
        return False
    return not has_its_claims(stateful_set, pod)


def has_its_claims(stateful_set: StatefulSet, pod: Pod) -> bool:
    """Tell whether a pod has all its claims as volumes (storageMatches)."""
    ordinal = ordinal_of(stateful_set, pod)
    if ordinal is None:
        return False
    return set(claim_names(stateful_set, ordinal)) <= used_claims(pod)


def used_claims(pod: Pod) -> set[str]:
    """Return the names of the claims that are volumes of a pod."""
    return {
        volume.persistent_volume_claim.claim_name
        for volume in pod.spec.volumes or ()
        if volume.persistent_volume_claim is not None
    }


def _made_from(
    template: PersistentVolumeClaim, stateful_set: StatefulSet, ordinal: int
) -> PersistentVolumeClaim:
    """Return a claim: the template with the name, labels and owners from the set.

    Of the set's labels only matchLabels of the selector are copied, as upstream.
    """
    selector = stateful_set.spec.selector
    selected = (selector.match_labels if selector is not None else None) or {}
    labels = {**(template.metadata.labels or {}), **selected}
    metadata = replace(
        template.metadata,
        name=claim_name(stateful_set, template.metadata.name, ordinal),
        namespace=stateful_set.metadata.namespace,
        labels=labels or None,
        owner_references=owners_of_new(template, stateful_set) or None,
    )
    return replace(template, metadata=metadata)
