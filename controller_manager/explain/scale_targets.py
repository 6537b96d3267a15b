"""Explains the targets of autoscalers, and the pods that only seem to be theirs."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
    REPLICASETS,
    STATEFUL_SETS,
    Deployment,
)
from controller_manager.api.autoscaling.v2 import HorizontalPodAutoscaler
from controller_manager.api.batch.v1 import JOBS
from controller_manager.api.core.v1 import (
    PODS,
    REPLICATION_CONTROLLERS,
    ReplicationController,
)
from controller_manager.api.json_objects import JSON
from controller_manager.api.meta import AnyResource
from controller_manager.api.selectors import (
    LabelSelector,
    SelectorError,
    compile_selector,
    format_selector,
)

from .cause import Cause, State, counted, symptom, worst_of
from .items import Item, text_at
from .replicas import explain_replica_set, explain_replication_controller
from .rollout import explain_deployment
from .stateful_sets import explain_stateful_set
from .view import View

_Explain = Callable[[View, Item], Awaitable[tuple[Cause, ...]]]

_TARGETS: Final[Sequence[tuple[AnyResource, _Explain]]] = (
    (DEPLOYMENTS, explain_deployment),
    (STATEFUL_SETS, explain_stateful_set),
    (REPLICASETS, explain_replica_set),
    (REPLICATION_CONTROLLERS, explain_replication_controller),
)
"""The kinds of targets whose pods have them, or a replica set of theirs, as owner."""

_OWNERS: Final[Sequence[AnyResource]] = (REPLICASETS, DEPLOYMENTS, STATEFUL_SETS, JOBS)
"""The owners between a target and its pods, and those of others' pods."""

_SHOWN: Final = 5


class ScaleTarget(Struct, frozen=True):
    """The target of an autoscaler, and the function that explains it.

    `explain` is `None` for a kind of another API, such as a custom resource; then only
    pods of workloads are called foreign.
    """

    item: Item
    explain: _Explain | None


async def target_of(view: View, item: Item) -> ScaleTarget | None:
    """Return the target of an autoscaler; `None` if it cannot be read."""
    reference = item.typed(HorizontalPodAutoscaler).spec.scale_target_ref
    group, _, _ = reference.api_version.rpartition("/")
    for resource, explain in _TARGETS:
        if (resource.group, resource.kind) == (group, reference.kind):
            found = await view.find(resource, item.namespace, reference.name)
            return ScaleTarget(found, explain) if found else None
    for served in (await view.discovery()).resources:
        is_kind = (served.group, served.kind) == (group, reference.kind)
        if is_kind and served.is_preferred and "scale" in served.subresources:
            resource = served.metadata_resource()
            found = await view.find(resource, item.namespace, reference.name)
            return ScaleTarget(found, None) if found else None
    return None


async def explain_scale_target(view: View, target: ScaleTarget) -> tuple[Cause, ...]:
    """Return the cause for a target that is not as its spec wants it."""
    item = target.item
    causes = await target.explain(view, item) if target.explain is not None else ()
    if worst_of(causes) is State.HEALTHY:
        return ()
    cause = Cause(
        code="TargetWaits",
        state=State.PROGRESSING,
        what=f"the target {item.resource.kind} {item.name} is not as its spec wants it",
        object=item.reference,
        field="status",
    )
    return (symptom(cause, causes),)


async def explain_foreign_pods(
    view: View, item: Item, target: ScaleTarget
) -> tuple[Cause, ...]:
    """Return the cause if a target's selector matches pods that it does not own.

    An autoscaler takes all pods that the selector matches for those of its target: it
    multiplies their number by their use, or waits for their metrics.
    """
    try:
        labels, pods = await _pods(view, target)
    except SelectorError:
        return ()  # the explanation of the target says so
    if not pods:
        return ()
    owners = {
        each.uid: each
        for resource in _OWNERS
        for each in await view.list(resource, item.namespace)
    }
    is_whole = all(view.is_whole(each, item.namespace) for each in _OWNERS)
    foreign = [
        each
        for each in pods
        if not each.deleted_at
        and text_at(each.status, "phase") != "Failed"
        and _is_foreign(each, target, owners, is_whole=is_whole)
    ]
    if not foreign:
        return ()
    names = list(dict.fromkeys(_root_name(each, owners) for each in foreign))
    shown = ", ".join(names[:_SHOWN])
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    kind, name = target.item.resource.kind, target.item.name
    return (
        Cause(
            code="ForeignPods",
            state=State.STUCK,
            what=f"the selector of {kind} {name}, {labels}, also matches "
            f"{counted(len(foreign))} of others ({shown}{more}), which the autoscaler "
            "counts as pods of its target",
            object=target.item.reference,
            field="spec.selector",
            since=min(each.created_at for each in foreign),
            remedy=f"give those pods other labels, or create {kind} {name} again with "
            "a label of its own in its selector",
        ),
    )


async def _pods(view: View, target: ScaleTarget) -> tuple[str, Sequence[Item]]:
    """Return the selector of a target as a query, and the pods that it matches."""
    item = target.item
    if target.explain is None:
        scale = await view.find(item.resource, item.namespace, item.name, "scale")
        labels = text_at(scale.status, "selector") if scale else ""
        found = await view.list(PODS, item.namespace, labels=labels) if labels else ()
        return labels, found
    if item.resource is REPLICATION_CONTROLLERS:
        spec = item.typed(ReplicationController).spec
        selector = LabelSelector(match_labels=spec.selector)
    else:
        selector = item.typed(Deployment).spec.selector or LabelSelector()
    compiled = compile_selector(selector)
    if compiled.is_empty:
        return "", ()
    labels = format_selector(selector)
    found = await view.list(PODS, item.namespace, labels=labels)
    return labels, [each for each in found if compiled.matches(each.labels)]


def _is_foreign(
    pod: Item, target: ScaleTarget, owners: Mapping[str, Item], *, is_whole: bool
) -> bool:
    """Tell whether no owner above a pod is the target.

    An owner that was not read may be anything.
    """
    last: JSON = {}
    for last in _owners_above(pod, owners):
        if last.get("uid") == target.item.uid:
            return False
    if last and text_at(last, "uid") not in owners and not is_whole:
        return False
    return target.explain is not None or text_at(last, "uid") in owners


def _owners_above(pod: Item, owners: Mapping[str, Item]) -> Iterator[JSON]:
    """Yield the references to the controllers above a pod, the nearest first."""
    seen: set[str] = set()
    reference = pod.controller
    while reference is not None and text_at(reference, "uid") not in seen:
        yield reference
        seen.add(text_at(reference, "uid"))
        above = owners.get(text_at(reference, "uid"))
        reference = above.controller if above is not None else None


def _root_name(pod: Item, owners: Mapping[str, Item]) -> str:
    """Return kind and name of the highest owner of a pod, or of the pod."""
    last = [*_owners_above(pod, owners)][-1:]
    if not last:
        return f"Pod {pod.name}"
    return f"{text_at(last[0], 'kind')} {text_at(last[0], 'name')}"
