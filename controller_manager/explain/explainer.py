"""Explains one object, or all objects of a namespace."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from controller_manager.api.resource import AnyResource
from controller_manager.explain.cause import (
    Cause,
    Explanation,
    State,
    worst_first,
    worst_of,
)
from controller_manager.explain.claims import explain_claim
from controller_manager.explain.deletion import explain_deletion
from controller_manager.explain.items import Item, text_at
from controller_manager.explain.kinds import KINDS
from controller_manager.explain.pods import explain_pod
from controller_manager.explain.replicas import (
    explain_replica_set,
    explain_replication_controller,
)
from controller_manager.explain.rollout import explain_deployment
from controller_manager.explain.services import explain_service
from controller_manager.explain.target import Target, resource_of
from controller_manager.explain.view import View

Explain = Callable[[View, Item], Awaitable[tuple[Cause, ...]]]

_TOPICS: Final[dict[str, Explain]] = {
    "deployments.apps": explain_deployment,
    "persistentvolumeclaims": explain_claim,
    "pods": explain_pod,
    "replicasets.apps": explain_replica_set,
    "replicationcontrollers": explain_replication_controller,
    "services": explain_service,
}


async def explain_target(view: View, target: Target, namespace: str) -> Explanation:
    """Return the explanation of a target; raises TargetError and Unread."""
    resource = await resource_of(view, target)
    place = namespace if resource.namespaced else ""
    return await explain_item(view, await view.read(resource, place, target.name))


async def explain_all(view: View, namespace: str) -> Sequence[Explanation]:
    """Return the explanations of a namespace's objects that are not healthy.

    An object that another one controls is left out: the explanation of its owner has
    it already.
    """
    found = [
        await explain_item(view, each)
        for resource in KINDS
        for each in await _to_explain(view, resource, namespace)
    ]
    return [each for each in found if each.state is not State.HEALTHY]


async def _to_explain(
    view: View, resource: AnyResource, namespace: str
) -> Sequence[Item]:
    if not resource.namespaced:
        return [await view.read(resource, "", namespace)]
    found = await view.list(resource, namespace)
    return [each for each in found if each.controller is None]


async def explain_item(view: View, item: Item) -> Explanation:
    """Return the explanation of an object."""
    try:
        causes = worst_first(await _causes(view, item))
    except msgspec.ValidationError as error:
        view.note(f"{item.reference} has an unusable field: {error}")
        causes = ()
    state = worst_of(causes)
    if view.unread and state is State.HEALTHY and not causes:
        summary = "nothing is wrong, as far as it can be read"
    else:
        summary = _summary(item, state)
    return Explanation(
        object=item.reference,
        state=state,
        summary=summary,
        causes=causes,
        unread=view.unread,
    )


async def _causes(view: View, item: Item) -> tuple[Cause, ...]:
    if item.deleted_at:
        return await explain_deletion(view, item)
    explain = _TOPICS.get(item.resource.group_resource)
    return await explain(view, item) if explain is not None else ()


def _summary(item: Item, state: State) -> str:
    """Return the numbers of the status in a few words, for the first line."""
    if item.deleted_at:
        return "it is being deleted"
    kind = item.resource.kind
    if kind in ("Pod", "PersistentVolumeClaim"):
        return f"its phase is {text_at(item.status, 'phase') or 'unknown'}"
    if kind in _COUNTS:
        wanted, got, word = _COUNTS[kind]
        return f"{_number(item, got)} of {_number(item, wanted)} pods are {word}"
    return "nothing is wrong" if state is State.HEALTHY else "it does not work"


_COUNTS: Final = {
    "DaemonSet": (
        "status.desiredNumberScheduled",
        "status.numberAvailable",
        "available",
    ),
    "Deployment": ("spec.replicas", "status.availableReplicas", "available"),
    "ReplicaSet": ("spec.replicas", "status.availableReplicas", "available"),
    "ReplicationController": ("spec.replicas", "status.availableReplicas", "available"),
    "StatefulSet": ("spec.replicas", "status.availableReplicas", "available"),
}


def _number(item: Item, path: str) -> int:
    part, _, name = path.partition(".")
    holder = item.spec if part == "spec" else item.status
    found = holder.get(name, 0)
    return found if isinstance(found, int) else 0
