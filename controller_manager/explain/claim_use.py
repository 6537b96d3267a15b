"""Explains deleted claims that pods still use."""

from typing import Final

from msgspec.structs import replace

from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.controllers.storage.claimprotection.pods import uses

from .cause import Cause, State, merged, symptom
from .items import Item
from .pods import explain_ending
from .view import View

PROTECTION: Final = "kubernetes.io/pvc-protection"
"""The finalizer of claims that pods use."""


async def explain_use(view: View, claim: Item, held: Cause) -> Cause:
    """Return the cause for a protected claim, with the pods that use it.

    Without such a pod, the controller is the cause.
    """
    pods = await view.list(PODS, claim.namespace)
    typed = claim.typed(PersistentVolumeClaim)
    found = [await _user(view, each) for each in pods if uses(each.typed(Pod), typed)]
    if found:
        return symptom(replace(held, remedy=""), merged(found))
    if not view.is_whole(PODS, claim.namespace):
        return held
    return replace(
        held,
        what=f"the finalizer {PROTECTION} holds it, although no pod uses the claim",
        remedy=held.remedy
        and "see that kube-controller-manager runs with this controller",
    )


async def _user(view: View, pod: Item) -> Cause:
    cause = Cause(
        code="ClaimInUse",
        state=State.STUCK,
        what=f"the pod {pod.name} uses the claim until it is gone",
        object=pod.reference,
        field="spec.volumes",
        since=pod.created_at,
        remedy="delete the pod, or the workload that controls it",
    )
    if not pod.deleted_at:
        return cause
    return symptom(replace(cause, remedy=""), [await explain_ending(view, pod)])
