"""What an object shows by itself: spec, conditions, finalizers, an idle controller."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from controller_manager.api.coordination.v1 import LEASES, Lease
from controller_manager.api.json_objects import JSON, object_at, objects_at
from controller_manager.api.scalars import parse_time

from .cause import (
    Cause,
    Item,
    State,
    counted,
    last_change,
    number_at,
    text_at,
    writers_of,
)
from .view import View


def spec_cause(
    item: Item,
    code: str,
    what: str,
    field: str,
    remedy: str,
    state: State = State.STUCK,
) -> Cause:
    """Return the cause that a field of an object shows since the object exists."""
    return item.cause(code, what, field, item.created_at, remedy=remedy, state=state)


def condition_cause(
    item: Item, condition: JSON, code: str, what: str = "", remedy: str = ""
) -> Cause:
    """Return the cause that a condition shows since it changed last.

    Without a sentence, the cause has the condition's message.
    """
    return item.cause(
        code,
        what or message_of(condition),
        f"status.conditions[{text_at(condition, 'type')}]",
        text_at(condition, "lastTransitionTime"),
        remedy=remedy,
    )


def message_of(condition: JSON) -> str:
    """Return the message of a condition in one line, without a full stop."""
    return " ".join(text_at(condition, "message").split()).rstrip(".")


def scaled_to_zero(item: Item) -> Cause:
    """Return the remark about a workload that wants no pods."""
    writers = writers_of(item, "spec", "replicas")
    by = f", set by {writers[0].manager}" if writers else ""
    name = f"{item.resource.kind.lower()}/{item.name}"
    return item.cause(
        "ScaledToZero",
        f"it wants no pods: replicas is 0{by}",
        "spec.replicas",
        writers[0].at if writers else item.created_at,
        remedy=f"to have pods, scale it: kubectl scale -n {item.namespace} {name} "
        "--replicas=N",
        state=State.HEALTHY,
    )


def left_for_deletion(item: Item, old: int) -> Cause:
    """Return the cause for old pods that the strategy OnDelete leaves alone."""
    return item.cause(
        "OnDelete",
        f"{counted(old)} of the old template: the strategy OnDelete waits until "
        "somebody deletes them",
        "spec.updateStrategy.type",
        remedy=f"delete them: kubectl delete pod -n {item.namespace} NAME",
    )


_NAMES = {"CronJob": "cron job", "Job": "job"}


def suspended(item: Item, effect: str) -> Cause:
    """Return the cause for a suspended job or cron job, with the effect of it.

    A job has a condition with the time; else the last writer of the field has it.
    """
    kind = item.resource.kind
    writers = writers_of(item, "spec", "suspend")
    by = f" by {writers[0].manager}" if writers else ""
    condition = item.condition("Suspended") or {}
    written = writers[0].at if writers and kind == "CronJob" else ""
    return item.cause(
        "Suspended",
        f"the {_NAMES[kind]} was suspended{by}, {effect}",
        "spec.suspend",
        text_at(condition, "lastTransitionTime") or written or item.created_at,
        remedy=f"resume it: kubectl patch -n {item.namespace} {kind.lower()}/"
        f"""{item.name} -p '{{"spec": {{"suspend": false}}}}'""",
    )


_REMOVING: Final = timedelta(seconds=30)
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
    is_new = view.age(item.deleted_at) < _REMOVING
    return item.cause(
        "HeldByFinalizer",
        _described(name, len(held) - 1, added_by(item, name)),
        field,
        item.deleted_at,
        remedy="" if is_new else _remedy(item, name),
        state=State.PROGRESSING if is_new else State.STUCK,
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


_PATIENCE: Final = timedelta(seconds=20)
"""The time in which a controller observes a change."""

_LEASE: Final = ("kube-system", "kube-controller-manager")


async def explain_inaction(view: View, item: Item) -> Cause | None:
    """Return the cause if no controller has observed the newest spec of an object.

    `None` for a kind without observedGeneration.
    """
    generation = number_at(item.metadata, "generation")
    observed = item.status.get("observedGeneration")
    if not generation or number_at(item.status, "observedGeneration") >= generation:
        return None
    if observed is None and item.status:
        return None
    since = last_change(item) or item.created_at
    if view.age(since) < _PATIENCE:
        return item.cause(
            "NotObserved",
            "the controller has not seen the newest spec yet",
            "status.observedGeneration",
            since,
            state=State.PROGRESSING,
        )
    return item.cause(
        "ControllerAbsent",
        f"no controller has seen the newest spec: {await _leader(view)}",
        "status.observedGeneration",
        since,
        remedy="see that kube-controller-manager runs, and runs this controller",
    )


async def explain_no_leader(view: View) -> Cause | None:
    """Return the cause if the lease shows that no controller manager leads.

    `None` if the lease does not exist or cannot be read: then nothing is known.
    """
    namespace, name = _LEASE
    fields = f"metadata.name={name}"
    found = await view.list(LEASES, namespace, fields=fields, is_hint=True)
    for lease in found:
        if lease.name == name and (why := _without_leader(view, lease)):
            return lease.cause(
                "ControllerAbsent",
                f"no controller acts: {why}",
                "spec.renewTime",
                text_at(lease.spec, "renewTime"),
                remedy="see that kube-controller-manager runs",
            )
    return None


async def _leader(view: View) -> str:
    """Return a sentence about the leader of kube-controller-manager."""
    namespace, name = _LEASE
    lease = await view.find(LEASES, namespace, name)
    if lease is None:
        return "the lease of kube-controller-manager does not show a leader"
    if why := _without_leader(view, lease):
        return why
    holder = lease.typed(Lease).spec.holder_identity
    return f"{holder} leads, and may not run this controller"


def _without_leader(view: View, lease: Item) -> str:
    """Return a sentence if a lease shows that there is no leader, empty otherwise."""
    spec = lease.typed(Lease).spec
    if not spec.holder_identity:
        return "the lease of kube-controller-manager has no holder"
    if spec.renew_time is not None:
        seconds = timedelta(seconds=spec.lease_duration_seconds or 0)
        if parse_time(spec.renew_time) + seconds < view.now:
            at = text_at(lease.spec, "renewTime")
            return f"the lease of kube-controller-manager was last renewed at {at}"
    return ""
