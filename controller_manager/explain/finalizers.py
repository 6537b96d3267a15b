"""Explains objects that finalizers keep from being removed."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from controller_manager.api.json_objects import object_at, objects_at

from .cause import Cause, State
from .items import Item, text_at
from .view import View

_PATIENCE: Final = timedelta(seconds=30)
"""The time that a controller needs to remove its finalizer."""

_OWNERS: Final = {
    "batch.kubernetes.io/job-tracking": "the job controller counts the pod first",
    "foregroundDeletion": "the garbage collector deletes its dependents first",
    "orphan": "the garbage collector releases its dependents first",
    "kubernetes": "the namespace controller empties the namespace first",
    "kubernetes.io/pvc-protection": "pods still use the claim",
    "kubernetes.io/pv-protection": "the volume is still bound to a claim",
    "kubernetes.io/vac-protection": "claims or volumes still use the class",
    "service.kubernetes.io/load-balancer-cleanup": (
        "the cloud's service controller removes the load balancer first"
    ),
    "customresourcecleanup.apiextensions.k8s.io": (
        "the API server deletes the custom resources first"
    ),
    "external-provisioner.volume.kubernetes.io/finalizer": (
        "the CSI provisioner deletes the storage first"
    ),
    "resource.kubernetes.io/delete-protection": "a pod still uses the claim",
}
_INTERNAL: Final = frozenset(("foregroundDeletion", "orphan", "kubernetes"))


def explain_finalizers(
    view: View,
    item: Item,
    names: Sequence[str] | None = None,
    field: str = "metadata.finalizers",
) -> Cause | None:
    """Return the cause for an object that finalizers hold, `None` without finalizers.

    Upstream's finalizers are known by name. Another is that of a controller that must
    be installed; its name begins with the domain of that controller. `names` are the
    finalizers to explain, those of the metadata unless given.
    """
    held = finalizers_of(item) if names is None else names
    if not held:
        return None
    name = held[0]
    is_new = view.age(item.deleted_at) < _PATIENCE
    return Cause(
        code="HeldByFinalizer",
        state=State.PROGRESSING if is_new else State.STUCK,
        what=_described(name, len(held) - 1, added_by(item, name)),
        object=item.reference,
        field=field,
        since=item.deleted_at,
        remedy="" if is_new else _remedy(item, name),
    )


def finalizers_of(item: Item) -> Sequence[str]:
    """Return the finalizers in the metadata of an object."""
    found: Sequence[str] = item.metadata.get("finalizers") or ()
    return found


def owner_of(finalizer: str) -> str:
    """Return the domain of the controller that removes a finalizer, empty for none."""
    return finalizer.partition("/")[0] if "/" in finalizer else ""


def added_by(item: Item, finalizer: str) -> str:
    """Return the field manager that added a finalizer, empty if it is not known."""
    for entry in objects_at(item.metadata, "managedFields"):
        metadata = object_at(object_at(entry, "fieldsV1"), "f:metadata")
        if f'v:"{finalizer}"' in object_at(metadata, "f:finalizers"):
            return text_at(entry, "manager")
    return ""


def _described(name: str, others: int, manager: str) -> str:
    more = f" and {others} more" if others else ""
    if known := _OWNERS.get(name):
        return f"the finalizer {name}{more} holds it: {known}"
    domain = owner_of(name)
    who = f"the controller of {domain}" if domain else "its controller"
    added = f" (the field manager {manager} added it)" if manager else ""
    return f"the finalizer {name}{more} holds it: {who} has not removed it{added}"


def _remedy(item: Item, name: str) -> str:
    if name in _INTERNAL:
        return "see that kube-controller-manager runs with this controller"
    if name in _OWNERS:
        return "end the use that it protects, or see that its controller runs"
    kind = item.resource.group_resource
    place = f" -n {item.namespace}" if item.namespace else ""
    return (
        f"see that the controller of {owner_of(name) or name} runs; if it is "
        f"uninstalled, remove the finalizer: kubectl edit {kind}{place} {item.name}"
    )
