"""Explains stateful sets: the ordinal for which all later ones wait."""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from controller_manager.api.apps.v1 import StatefulSet, desired_replicas
from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import AnyResource, KubeObject, is_controlled_by
from controller_manager.controllers.apps.statefulset import identity
from controller_manager.controllers.apps.statefulset.ordering import plan_sync
from controller_manager.controllers.apps.statefulset.replicas import (
    Replicas,
    Revisions,
    Settings,
)
from controller_manager.runtime.outcome import Reason

from . import own_causes
from .cause import Cause, Item, Reference, State, counted, symptom
from .creation import explain_refusal
from .mutated import explain_mutated_revisions
from .pods import explain_pod
from .replicas import explain_evictions, explain_pods
from .view import View, has_all_pods, pods_of

_UPSTREAM: Final = Settings(replaces_stuck_pods=False)
"""The manager in charge may be upstream's, which waits for stuck pods."""

_ON_DELETE: Final = "OnDelete"
_MOST_ORDINALS: Final = 500


async def explain_stateful_set(view: View, item: Item) -> tuple[Cause, ...]:
    """Return the causes for which a stateful set is not as its spec wants it.

    The plan of the controller says for which pod the set waits.
    """
    if inaction := await own_causes.explain_inaction(view, item):
        return (inaction,)
    if evicted := await explain_evictions(view, item):
        return evicted
    if mutated := await explain_mutated_revisions(view, item):
        return mutated
    typed = item.typed(StatefulSet)
    items = {each.name: each for each in await pods_of(view, item, typed.spec.selector)}
    replicas = await _replicas(view, typed, items)
    if replicas is None or not has_all_pods(view, item, typed.spec.selector):
        return await _by_status(view, item, typed, items)
    plan = plan_sync(replicas, view.now)
    if plan.has_writes:
        return await _next_step(view, item, replicas, items)
    waits = [await _wait(view, item, typed, each, items) for each in plan.reasons]
    if waits:
        return tuple(waits)
    unavailable = await explain_pods(
        view, list(items.values()), typed.spec.min_ready_seconds
    )
    if unavailable:
        return (symptom(_not_available(item, typed), unavailable),)
    if desired_replicas(typed) == 0:
        return (own_causes.scaled_to_zero(item),)
    return _update(item, typed)


async def _replicas(
    view: View, typed: StatefulSet, items: Mapping[str, Item]
) -> Replicas | None:
    """Return the replicas for which the controller would plan its next sync.

    `None` if a claim cannot be read: it may exist all the same.
    """
    pods = [each.typed(Pod) for each in items.values()]
    named = [each for each in pods if identity.ordinal_of(typed, each) is not None]
    foreign: dict[str, Pod] = {}
    claims: dict[str, KubeObject] = {}
    wanted = identity.ordinals(typed)[:_MOST_ORDINALS]
    has_claims = bool(typed.spec.volume_claim_templates)
    for ordinal in wanted:
        name = identity.pod_name(typed, ordinal)
        if name not in items:
            other = await view.find(PODS, typed.metadata.namespace, name)
            if other and not is_controlled_by(other.typed(Pod), typed):
                foreign[name] = other.typed(Pod)
        for claim in identity.claim_names(typed, ordinal) if has_claims else ():
            found = await view.find(CLAIMS, typed.metadata.namespace, claim)
            if found is not None:
                claims[claim] = found.typed(PersistentVolumeClaim)
            elif not await view.is_missing(CLAIMS, typed.metadata.namespace, claim):
                return None
    return Replicas(
        stateful_set=typed,
        pods=tuple(named),
        revisions=Revisions.recorded(typed),
        claims=claims,
        foreign=foreign,
        settings=_UPSTREAM,
    )


async def _by_status(
    view: View, item: Item, typed: StatefulSet, items: Mapping[str, Item]
) -> tuple[Cause, ...]:
    """Return the cause that the status shows, if not all objects were read."""
    if typed.status.available_replicas >= desired_replicas(typed):
        return _update(item, typed)
    seconds = typed.spec.min_ready_seconds
    causes = await explain_pods(view, list(items.values()), seconds)
    return (symptom(_not_available(item, typed), causes),)


async def _wait(
    view: View,
    item: Item,
    typed: StatefulSet,
    reason: Reason,
    items: Mapping[str, Item],
) -> Cause:
    """Return the cause for which the controller goes no further."""
    about = reason.object
    reference = Reference(about.api_version, about.kind, about.namespace, about.name)
    cause = item.cause(
        "WaitsForOrdinal" if about.kind == "Pod" else "WaitsForClaim",
        f"{_missing(typed)}the set waits for {about.kind} {about.name}: it waits "
        f"for {reason.waiting_for}",
        "spec.podManagementPolicy",
        item.created_at,
        state=State.PROGRESSING,
    )
    waited = items.get(about.name) if about.kind == "Pod" else None
    if waited is not None:
        pod = await explain_pod(view, waited, typed.spec.min_ready_seconds)
        return symptom(cause, pod)
    found = await view.find(_RESOURCES[about.kind], about.namespace, about.name)
    if found is not None and found.deleted_at:
        held = own_causes.explain_finalizers(view, found)
        return symptom(cause, [held] if held else [])
    return replace(
        cause,
        object=reference,
        field="metadata.ownerReferences",
        state=State.STUCK,
        remedy=f"delete {about.kind} {about.name}, or rename the stateful set",
    )


_RESOURCES: Final[dict[str, AnyResource]] = {
    "Pod": PODS,
    "PersistentVolumeClaim": CLAIMS,
}


def _missing(typed: StatefulSet) -> str:
    """Return the words about the pods that do not exist yet."""
    count = desired_replicas(typed) - typed.status.replicas
    if count <= 0:
        return ""
    return f"{count} of {desired_replicas(typed)} pods do not exist yet, because "


async def _next_step(
    view: View, item: Item, replicas: Replicas, items: Mapping[str, Item]
) -> tuple[Cause, ...]:
    """Return the cause for a set with which the controller has something to do."""
    typed = replicas.stateful_set
    missing = [
        name
        for name in (
            identity.pod_name(typed, each)
            for each in identity.ordinals(typed)[:_MOST_ORDINALS]
        )
        if name not in items
    ]
    if missing and missing[0] in replicas.foreign:
        return (symptom(_not_available(item, typed), [_name_taken(item, missing[0])]),)
    refusal = await explain_refusal(view, item, len(missing)) if missing else None
    waiting = await explain_pods(
        view, list(items.values()), typed.spec.min_ready_seconds
    )
    if refusal is not None:
        return (symptom(_not_available(item, typed), [refusal, *waiting]),)
    what = (
        f"the controller creates the pod {missing[0]} next"
        if missing
        else ("the controller changes or deletes a pod next")
    )
    step = item.cause("NextStep", what, "spec.replicas", state=State.PROGRESSING)
    return (symptom(_not_available(item, typed), [step, *waiting]),)


def _name_taken(item: Item, name: str) -> Cause:
    """Return the cause for an ordinal whose name a pod of somebody else has."""
    return Cause(
        code="NameTaken",
        state=State.STUCK,
        what=f"the set waits for the pod {name}, which it does not control, to be "
        "deleted",
        object=Reference(PODS.api_version, PODS.kind, item.namespace, name),
        field="metadata.ownerReferences",
        remedy=f"delete it: kubectl delete pod -n {item.namespace} {name}",
    )


def _not_available(item: Item, typed: StatefulSet) -> Cause:
    return item.cause(
        "RolloutWaits",
        f"{typed.status.available_replicas} of {desired_replicas(typed)} pods are "
        "available",
        "status.availableReplicas",
        item.created_at,
        state=State.PROGRESSING,
    )


def _update(item: Item, typed: StatefulSet) -> tuple[Cause, ...]:
    """Return the cause for pods of an old revision that the strategy leaves alone.

    If the set was made over the pods of an earlier one, with other claim templates, all
    its revisions may be one, and the pods are old all the same.
    """
    status = typed.status
    if not status.update_revision:
        return ()
    old = desired_replicas(typed) - status.updated_replicas
    strategy = typed.spec.update_strategy
    if old > 0 and strategy.type == _ON_DELETE:
        return (own_causes.left_for_deletion(item, old),)
    rolling = strategy.rolling_update
    if old > 0 and rolling is not None and rolling.partition:
        return (
            item.cause(
                "Partition",
                f"{counted(old)} of the old template stay: the partition is "
                f"{rolling.partition}",
                "spec.updateStrategy.rollingUpdate.partition",
                remedy="to update them as well, lower the partition",
                state=State.HEALTHY,
            ),
        )
    if old > 0 and status.observed_generation:
        what = f"{status.updated_replicas} of {desired_replicas(typed)} pods have the "
        return (replace(_not_available(item, typed), what=f"{what}current template"),)
    return ()
