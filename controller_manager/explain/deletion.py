"""Explains objects and namespaces that are being deleted, and are still there.

A deleted claim stays while pods use it.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from controller_manager.api.apps.v1 import (
    DAEMON_SETS,
    DEPLOYMENTS,
    REPLICASETS,
    STATEFUL_SETS,
)
from controller_manager.api.batch.v1 import CRON_JOBS, JOBS
from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.services import SERVICES
from controller_manager.api.core.v1 import PODS, REPLICATION_CONTROLLERS, Pod
from controller_manager.api.json_objects import JSON, objects_at
from controller_manager.api.meta import AnyResource, PartialObject, Resource
from controller_manager.controllers.cluster.namespace import conditions
from controller_manager.controllers.storage.claimprotection.pods import uses

from .cause import Cause, Item, State, merged, symptom, text_at
from .own_causes import condition_cause, explain_finalizers, finalizers_of, message_of
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
    cause = pod.cause(
        "ClaimInUse",
        f"the pod {pod.name} uses the claim until it is gone",
        "spec.volumes",
        pod.created_at,
        remedy="delete the pod, or the workload that controls it",
    )
    if not pod.deleted_at:
        return cause
    return symptom(replace(cause, remedy=""), [await explain_ending(view, pod)])


API_SERVICES: Final = Resource(
    "apiregistration.k8s.io",
    "v1",
    "apiservices",
    "APIService",
    PartialObject,
    namespaced=False,
)
_DEPENDENTS: Final[tuple[AnyResource, ...]] = (
    DEPLOYMENTS,
    STATEFUL_SETS,
    DAEMON_SETS,
    CRON_JOBS,
    REPLICASETS,
    REPLICATION_CONTROLLERS,
    JOBS,
    PODS,
    SERVICES,
    CLAIMS,
)
_KUBERNETES: Final = "kubernetes"
_FOREGROUND: Final = "foregroundDeletion"
_PATIENCE: Final = timedelta(seconds=60)
"""The time in which an object without finalizers is removed."""

_REMAINING: Final = re.compile(r"(\S+?)\.(\S*) has (\d+) resource instances")


async def explain_deletion(view: View, item: Item) -> tuple[Cause, ...]:
    """Return the causes for which a deleted object is still there."""
    if item.resource.kind == "Namespace":
        return await _namespace(view, item)
    return await _object(view, item, set())


async def _object(view: View, item: Item, seen: set[str]) -> tuple[Cause, ...]:
    """Return the causes for which an object is still there.

    `seen` has the uids of the owners whose dependents were looked for: owners of each
    other, which anybody can make, are no endless chain.
    """
    if item.resource.kind == "Pod":
        return (await explain_ending(view, item),)
    held = explain_finalizers(view, item)
    if held is None:
        return (_unexplained(view, item),)
    names = finalizers_of(item)
    if item.resource.kind == CLAIMS.kind and names[0] == PROTECTION:
        return (await explain_use(view, item, held),)
    if _FOREGROUND not in names or item.uid in seen:
        return (held,)
    seen.add(item.uid)
    found = await _dependents(view, item, seen)
    waits = explain_finalizers(view, item, (_FOREGROUND,))
    if not found or waits is None:
        return (held,)
    others = tuple(each for each in names if each != _FOREGROUND)
    own = explain_finalizers(view, item, others)
    waits = symptom(replace(waits, remedy=""), found)
    return (waits, own) if own else (waits,)


async def _dependents(view: View, owner: Item, seen: set[str]) -> Sequence[Cause]:
    """Return causes for the dependents that block the deletion of their owner."""
    found: list[Cause] = []
    for resource in _DEPENDENTS:
        for each in await view.list(resource, owner.namespace):
            if not _blocks(each, owner):
                continue
            why = await _object(view, each, seen) if each.deleted_at else ()
            cause = each.cause(
                "BlockedByDependent",
                f"a dependent {each.resource.kind} blocks the deletion of its "
                "owner (blockOwnerDeletion)",
                "metadata.ownerReferences",
                each.deleted_at or owner.deleted_at,
                state=State.PROGRESSING,
            )
            found.append(symptom(cause, why))
    return merged(found)


def _blocks(dependent: Item, owner: Item) -> bool:
    references = objects_at(dependent.metadata, "ownerReferences")
    return any(
        each.get("uid") == owner.uid and each.get("blockOwnerDeletion")
        for each in references
    )


def _unexplained(view: View, item: Item) -> Cause:
    is_new = view.age(item.deleted_at) < _PATIENCE
    return item.cause(
        "BeingDeleted",
        "the object is being deleted, and nothing in it holds it",
        "metadata.deletionTimestamp",
        item.deleted_at,
        remedy="" if is_new else "look at the log of the API server",
        state=State.PROGRESSING if is_new else State.STUCK,
    )


async def _namespace(view: View, namespace: Item) -> tuple[Cause, ...]:
    """Return the causes for which a namespace is not empty, or cannot be emptied."""
    found: list[Cause] = []
    for condition in namespace.conditions():
        if condition.get("status") != "True":
            continue
        if condition.get("type") in (
            conditions.DISCOVERY_FAILURE,
            conditions.PARSING_FAILURE,
        ):
            found.append(await _undiscovered(view, namespace, condition))
        elif condition.get("type") == conditions.CONTENT_REMAINING:
            found += await _remaining(view, namespace, condition)
        elif condition.get("type") == conditions.CONTENT_FAILURE:
            failure = condition_cause(namespace, condition, "ContentDeletionFailed")
            found.append(failure)
    explained = {each.code for each in found}
    if explained > {"ContentDeletionFailed"} and "HeldByFinalizer" in explained:
        # The message of this condition names no other cause than the objects do.
        found = [each for each in found if each.code != "ContentDeletionFailed"]
    return tuple(found) or _without_conditions(view, namespace)


def _without_conditions(view: View, namespace: Item) -> tuple[Cause, ...]:
    """Return the causes for a namespace about which no condition says anything.

    Once it is empty, the finalizer of the namespace controller is gone; others hold it.
    """
    of_spec: Sequence[str] = namespace.spec.get("finalizers") or ()
    if _KUBERNETES in of_spec:
        return (_not_emptied(view, namespace),)
    held = (
        explain_finalizers(view, namespace, of_spec, "spec.finalizers"),
        explain_finalizers(view, namespace),
    )
    return tuple(each for each in held if each) or (_unexplained(view, namespace),)


async def _undiscovered(view: View, namespace: Item, condition: JSON) -> Cause:
    """Return the cause for a namespace whose resources cannot be discovered."""
    broken = [
        _api_service(each)
        for each in await view.list(API_SERVICES)
        if (each.condition("Available") or {}).get("status") == "False"
    ]
    remedy = "" if broken else "repair the aggregated API, or delete its APIService"
    cause = condition_cause(namespace, condition, "DiscoveryFailed", remedy=remedy)
    return symptom(cause, broken)


def _api_service(item: Item) -> Cause:
    condition = item.condition("Available") or {}
    return condition_cause(
        item,
        condition,
        "APIServiceUnavailable",
        f"the aggregated API does not answer: {message_of(condition)}",
        "repair the server behind it, or delete the APIService",
    )


async def _remaining(view: View, namespace: Item, condition: JSON) -> tuple[Cause, ...]:
    """Return causes for the objects that remain in a namespace."""
    found: list[Cause] = []
    seen: set[str] = set()
    for plural, group in _resources_in(text_at(condition, "message")):
        discovery = await view.discovery()
        served = next(
            (
                each
                for each in discovery.resources
                if (each.plural, each.group) == (plural, group) and each.is_preferred
            ),
            None,
        )
        if served is None:
            continue
        for each in await view.list(served.metadata_resource(), namespace.name):
            found += await _object(view, each, seen) if each.deleted_at else ()
    return merged(found) or (condition_cause(namespace, condition, "ContentRemaining"),)


def _resources_in(message: str) -> Iterator[tuple[str, str]]:
    """Yield plural and group of the resources that a condition's message names."""
    for plural, group, _ in _REMAINING.findall(message):
        yield plural, group


def _not_emptied(view: View, namespace: Item) -> Cause:
    is_new = view.age(namespace.deleted_at) < _PATIENCE
    return namespace.cause(
        "NamespaceNotEmptied",
        "the namespace controller empties the namespace"
        if is_new
        else "the namespace controller has not reported about the namespace",
        "spec.finalizers",
        namespace.deleted_at,
        remedy="" if is_new else "see that kube-controller-manager runs with it",
        state=State.PROGRESSING if is_new else State.STUCK,
    )
