"""Explains rivalry: two managers of one field, and selectors that overlap."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from controller_manager.api.apps import v1
from controller_manager.api.autoscaling.v2 import (
    HORIZONTAL_POD_AUTOSCALERS,
    HorizontalPodAutoscaler,
)
from controller_manager.api.core.v1 import PODS
from controller_manager.api.json_objects import object_at
from controller_manager.api.meta import AnyResource
from controller_manager.api.scalars import parse_time
from controller_manager.api.selectors import SelectorError, compile_selector

from .cause import Cause, Item, State, Writer, number_at, text_at, writers, writers_of
from .view import View

_WORKLOADS: Final[Sequence[AnyResource]] = (
    v1.DEPLOYMENTS,
    v1.STATEFUL_SETS,
    v1.DAEMON_SETS,
    v1.REPLICASETS,
)
_SOON: Final = timedelta(minutes=1)
_RECENT: Final = timedelta(minutes=10)
_MANY_CHANGES: Final = 6
"""Changes of a spec in a minute that no person makes."""

_SCALE: Final = "scale"


async def explain_rivals(view: View, item: Item) -> tuple[Cause, ...]:
    """Return the causes that two managers of a workload, or of its pods, show."""
    found = [
        *await _autoscaled(view, item),
        *_alternating(view, item),
        *await _overlap(view, item),
    ]
    return tuple(found)


async def _autoscaled(view: View, item: Item) -> Sequence[Cause]:
    """Return the cause if something else than its autoscaler sets the replicas."""
    scalers = [
        each
        for each in await view.list(HORIZONTAL_POD_AUTOSCALERS, item.namespace)
        if _targets(each, item)
    ]
    if not scalers:
        return ()
    names = ", ".join(each.name for each in scalers)
    if len(scalers) > 1:
        return (
            item.cause(
                "TwoAutoscalers",
                f"several autoscalers set its replicas: {names}",
                "spec.replicas",
                remedy="keep one of them",
            ),
        )
    others = [each for each in writers_of(item, "spec", "replicas") if _is_user(each)]
    if not others:
        return ()
    wanted = number_at(scalers[0].status, "desiredReplicas")
    present = number_at(item.spec, "replicas", 1)
    user = others[0]
    # An autoscaler that acts overwrites the number within some seconds.
    is_new = view.age(user.at) < _SOON
    fights = bool(wanted) and wanted != present and is_new
    return (
        item.cause(
            "ReplicasFought" if fights else "ReplicasSetTwice",
            f"the field manager {user.manager} and the autoscaler {names} both "
            "set the replicas: "
            + (
                f"now {present}, the autoscaler wants {wanted}"
                if fights
                else f"each {user.operation.lower()} by {user.manager} undoes a scaling"
            ),
            "spec.replicas",
            user.at,
            remedy=f"leave replicas out of the manifests that {user.manager} uses",
            state=State.STUCK if fights else State.HEALTHY,
        ),
    )


def _targets(scaler: Item, item: Item) -> bool:
    target = scaler.typed(HorizontalPodAutoscaler).spec.scale_target_ref
    group = target.api_version.rpartition("/")[0]
    return (group, target.kind, target.name) == (
        item.resource.group,
        item.resource.kind,
        item.name,
    )


def _is_user(writer: Writer) -> bool:
    """Tell whether a manager is not the autoscaler, which writes the scale."""
    return writer.subresource != _SCALE


def _alternating(view: View, item: Item) -> Sequence[Cause]:
    """Return the cause if managers change the spec of an object again and again.

    One that has only created the object does not change it.
    """
    now = view.now
    recent = [
        each
        for each in writers(item)
        if each.at > item.created_at
        and now - parse_time(each.at) < _RECENT
        and "f:spec" in each.fields
        and each.subresource != _SCALE
    ]
    minutes = max(view.age(item.created_at) / timedelta(minutes=1), 1.0)
    changes = number_at(item.metadata, "generation") - 1
    names = sorted({each.manager for each in recent})
    if len(names) < 2 or changes / minutes < _MANY_CHANGES:  # noqa: PLR2004 - two
        return ()
    last = max(recent, key=lambda each: each.at)
    return (
        item.cause(
            "ManagersFight",
            f"the field managers {' and '.join(names)} change the spec in turn: "
            f"{changes} changes in {_minutes(minutes)}",
            "metadata.managedFields",
            last.at,
            remedy="let only one of them manage each field",
        ),
    )


def _minutes(number: float) -> str:
    rounded = max(round(number), 1)
    return "a minute" if rounded == 1 else f"{rounded} minutes"


async def _overlap(view: View, item: Item) -> Sequence[Cause]:
    """Return the cause if the selector of another workload matches the same pods.

    Each controller leaves pods alone that another one controls. But a pod without an
    owner is adopted by the first that sees it.
    """
    labels = object_at(
        object_at(object_at(item.spec, "template"), "metadata"), "labels"
    )
    rivals = [
        each
        for resource in _WORKLOADS
        for each in await view.list(resource, item.namespace)
        if each.uid != item.uid and each.controller is None and _selects(each, labels)
    ]
    if not rivals or item.controller is not None:
        return ()
    orphans = [
        each
        for each in await view.list(PODS, item.namespace)
        if each.controller is None
        and not each.deleted_at
        and _selects(item, each.labels)
    ]
    names = ", ".join(f"{each.resource.kind} {each.name}" for each in rivals)
    what = f"the selector of {names} matches the pods of this one as well"
    if orphans:
        what += f"; both adopt pods without an owner, such as {orphans[0].name}"
    return (
        item.cause(
            "SelectorOverlap",
            what,
            "spec.selector",
            max(text_at(each.metadata, "creationTimestamp") for each in rivals),
            remedy="give each of them a label of its own, in selector and template",
            state=State.STUCK if orphans else State.HEALTHY,
        ),
    )


def _selects(item: Item, labels: object) -> bool:
    """Tell whether the selector of a workload matches labels."""
    selector = item.typed(v1.Deployment).spec.selector
    try:
        compiled = compile_selector(selector)
    except SelectorError:
        return False
    return (
        isinstance(labels, dict) and not compiled.is_empty and compiled.matches(labels)
    )
