"""Explains autoscalers that do not scale: the metric, the target, or its pods."""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.apps.v1 import (
    DEPLOYMENTS,
    REPLICASETS,
    STATEFUL_SETS,
    Deployment,
)
from controller_manager.api.autoscaling.v2 import (
    HORIZONTAL_POD_AUTOSCALERS,
    HorizontalPodAutoscaler,
)
from controller_manager.api.batch.v1 import JOBS
from controller_manager.api.core.v1 import (
    PODS,
    REPLICATION_CONTROLLERS,
    ReplicationController,
)
from controller_manager.api.json_objects import JSON, object_at, objects_at
from controller_manager.api.meta import AnyResource
from controller_manager.api.selectors import (
    LabelSelector,
    SelectorError,
    compile_selector,
    format_selector,
)
from controller_manager.controllers.autoscaling.podautoscaler.status import (
    ABLE_TO_SCALE,
    SCALING_ACTIVE,
    SCALING_LIMITED,
)

from .cause import Cause, Item, Reference, State, counted, symptom, text_at, worst_of
from .deletion import API_SERVICES
from .own_causes import condition_cause, message_of
from .replicas import explain_replica_set, explain_replication_controller
from .rollout import explain_deployment
from .stateful_sets import explain_stateful_set
from .view import Event, View, events_of

_PATIENCE: Final = timedelta(seconds=60)
_APIS: Final = {
    "resource": "v1beta1.metrics.k8s.io",
    "Resource": "v1beta1.metrics.k8s.io",
    "external": "v1beta1.external.metrics.k8s.io",
    "External": "v1beta1.external.metrics.k8s.io",
    "Pods": "v1beta2.custom.metrics.k8s.io",
    "Object": "v1beta2.custom.metrics.k8s.io",
}
_NO_VALUE: Final = re.compile(
    "unable to (?:fetch|get) (?!missing)(?!.*missing request)"
)
_NAME: Final = re.compile(r"[^\s/\[\]{}]+")
_BY_METRICS: Final = ("MaxReplicas", "MetricMissing")
"""The codes of causes that the metrics of single pods bring about."""

_AVERAGE: Final = "AverageValue"
_FAILED_UPDATE: Final = "FailedUpdateScale"
_SERVERS: Final = {
    "v1beta1.metrics.k8s.io": "install metrics-server, or see that it runs",
}


async def explain_autoscaler(view: View, item: Item) -> tuple[Cause, ...]:
    """Return the causes for which an autoscaler does not scale its target well.

    It is as stuck as its target.
    """
    if not any(True for _ in item.conditions()):
        return _not_looked_at(view, item)
    target = await target_of(view, item)
    if target is None:
        return await _own_causes(view, item)
    counts = _counts_pods(item)
    foreign = await explain_foreign_pods(view, item, target) if counts else ()
    causes = await _own_causes(view, item)
    waits = await explain_scale_target(view, target)
    if foreign and any(map(_is_of_pods, causes)):
        # Their remedies would treat the metrics of foreign pods.
        causes = tuple(symptom(replace(each, remedy=""), foreign) for each in causes)
        return (*causes, *waits)
    return (*foreign, *causes, *waits)


def _counts_pods(item: Item) -> bool:
    """Tell whether an autoscaler reads metrics by pod, or multiplies by the pods.

    An average of another object is divided by the replicas in the scale. Without
    metrics the CPU counts.
    """
    metrics = item.typed(HorizontalPodAutoscaler).spec.metrics or ()
    others = [each.object or each.external for each in metrics]
    return not others or any(
        each is None or each.target.type != _AVERAGE for each in others
    )


def _is_of_pods(cause: Cause) -> bool:
    """Tell whether the metrics of single pods bring a cause about."""
    return cause.code in _BY_METRICS and not _NO_VALUE.search(cause.what)


async def _own_causes(view: View, item: Item) -> tuple[Cause, ...]:
    """Return the causes that the status of an autoscaler shows."""
    able = item.condition(ABLE_TO_SCALE) or {}
    if able.get("status") == "False":
        return (_unable(item, able),)
    active = item.condition(SCALING_ACTIVE) or {}
    if active.get("status") == "False":
        return (await _inactive(view, item, active),)
    limited = _limited(item, item.condition(SCALING_LIMITED) or {})
    return (*await _partly_unread(view, item), *limited)


def _not_looked_at(view: View, item: Item) -> tuple[Cause, ...]:
    is_new = view.age(item.created_at) < _PATIENCE
    return (
        item.cause(
            "NotObserved" if is_new else "ControllerAbsent",
            "no controller has looked at the autoscaler yet",
            "status.conditions",
            item.created_at,
            remedy="" if is_new else "see that the autoscaler's controller runs",
            state=State.PROGRESSING if is_new else State.STUCK,
        ),
    )


def _unable(item: Item, condition: JSON) -> Cause:
    """Return the cause for an autoscaler whose target cannot be scaled."""
    target = item.typed(HorizontalPodAutoscaler).spec.scale_target_ref
    return condition_cause(
        item,
        condition,
        "NoScaleTarget",
        f"{target.kind} {target.name} cannot be scaled: {message_of(condition)}",
        "correct what the message says; the controller tries again"
        if text_at(condition, "reason") == _FAILED_UPDATE
        else "create the target, or correct spec.scaleTargetRef",
    )


async def _inactive(view: View, item: Item, condition: JSON) -> Cause:
    """Return the cause for an autoscaler that cannot compute a number of pods."""
    reason, message = text_at(condition, "reason"), message_of(condition)
    if reason == "ScalingDisabled":
        return condition_cause(
            item,
            condition,
            "ScalingDisabled",
            "the target has 0 replicas, so scaling is disabled",
            "scale the target to 1 or more",
        )
    if reason == "AmbiguousSelector":
        others = [
            each.name
            for each in await view.list(HORIZONTAL_POD_AUTOSCALERS, item.namespace)
            if each.name != item.name and each.name in _NAME.findall(message)
        ]
        return condition_cause(
            item,
            condition,
            "SelectorOverlap",
            f"its pods are also those of another autoscaler ({', '.join(others)})",
            "correct the selectors of the targets, so that no pod has two autoscalers",
        )
    cause = condition_cause(
        item, condition, "MetricMissing", message, _metric_remedy(message)
    )
    api = await _unserved(view, reason) if _NO_VALUE.search(message) else ()
    return symptom(cause, api)


async def _partly_unread(view: View, item: Item) -> tuple[Cause, ...]:
    """Return the cause for an autoscaler that can read only some of its metrics.

    It scales up by the others, and never down. The status of a metric that cannot be
    read has no type.
    """
    specs = list(objects_at(item.spec, "metrics"))
    statuses = objects_at(item.status, "currentMetrics")
    unread = [
        spec
        for spec, status in zip(specs, statuses, strict=False)
        if not text_at(status, "type")
    ]
    if not unread:
        return ()
    names = ", ".join(map(_metric_name, unread))
    what = (
        f"{len(unread)} of {counted(len(specs), 'metric')} cannot be read ({names}), "
        "so the autoscaler does not scale down"
    )
    failed = (each for each in await events_of(view, item) if _is_failed_read(each))
    if (last := next(failed, None)) is not None:
        what += f": {last.message.rstrip('.')}"
    cause = item.cause(
        "MetricMissing", what, "status.currentMetrics", remedy=_metric_remedy(what)
    )
    kind = text_at(unread[0], "type")
    return (symptom(cause, await _unserved(view, f"FailedGet{kind}Metric")),)


def _is_failed_read(event: Event) -> bool:
    return event.reason.startswith("FailedGet") and event.reason.endswith("Metric")


def _metric_name(spec: JSON) -> str:
    """Return the type and the name of a metric, such as ``Resource cpu``."""
    kind = text_at(spec, "type")
    source = object_at(spec, f"{kind[:1].lower()}{kind[1:]}")
    name = text_at(source, "name") or text_at(object_at(source, "metric"), "name")
    return f"{kind} {name}"


def _metric_remedy(message: str) -> str:
    if "missing request for" in message:
        return "set the request of this resource in each container of the pods"
    if "did not receive metrics" in message:
        return "wait until the pods are ready, and have metrics"
    return "see that the metric exists, and that its metrics API answers"


async def _unserved(view: View, reason: str) -> Sequence[Cause]:
    """Return the cause if the metrics API of a metric is absent or does not answer."""
    kind = reason.removeprefix("FailedGet").removesuffix("Metric")
    name = _APIS.get(kind.removeprefix("Container"))
    if name is None:
        return ()
    remedy = _SERVERS.get(
        name, "install an adapter that serves it, or see that it runs"
    )
    group = name.partition(".")[2]
    served = {each.group for each in (await view.discovery()).resources}
    found = await view.find(API_SERVICES, "", name)
    if found is None:
        if not served or group in served:
            return ()
        if not await view.is_missing(API_SERVICES, "", name):
            return ()
        what, since = "the metrics API is not installed", ""
    else:
        available = found.condition("Available") or {}
        if available.get("status") != "False":
            return ()
        what = f"the metrics API does not answer: {message_of(available)}"
        since = text_at(available, "lastTransitionTime")
    return (
        Cause(
            code="APIServiceUnavailable",
            state=State.STUCK,
            what=what,
            object=Reference(API_SERVICES.api_version, API_SERVICES.kind, "", name),
            field="status.conditions[Available]",
            since=since,
            remedy=remedy,
        ),
    )


def _limited(item: Item, condition: JSON) -> tuple[Cause, ...]:
    """Return the cause for an autoscaler that wants more pods than it may have."""
    if (
        condition.get("status") != "True"
        or condition.get("reason") != "TooManyReplicas"
    ):
        return ()
    most = object_at(item.json, "spec").get("maxReplicas")
    return (
        condition_cause(
            item,
            condition,
            "MaxReplicas",
            f"the metrics ask for more pods than maxReplicas, {most}",
            "raise maxReplicas, or give the pods more room",
        ),
    )


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
    cause = item.cause(
        "TargetWaits",
        f"the target {item.resource.kind} {item.name} is not as its spec wants it",
        "status",
        state=State.PROGRESSING,
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
        target.item.cause(
            "ForeignPods",
            f"the selector of {kind} {name}, {labels}, also matches "
            f"{counted(len(foreign))} of others ({shown}{more}), which the autoscaler "
            "counts as pods of its target",
            "spec.selector",
            min(each.created_at for each in foreign),
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
