"""Explains one object, or all objects of a namespace, and nodes.

A node may not report, or cannot be drained.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from controller_manager.api.core.v1 import NAMESPACES, NODES, PODS, Pod
from controller_manager.api.meta import AnyResource
from controller_manager.api.pods import is_terminal
from controller_manager.api.policy.v1 import BUDGETS

from .autoscalers import explain_autoscaler
from .budgets import explain_budget, protects
from .cause import (
    Cause,
    Explanation,
    Item,
    Reference,
    State,
    counted,
    number_at,
    symptom,
    text_at,
    worst_first,
    worst_of,
    writers_of,
)
from .claims import explain_claim
from .cron_jobs import explain_cron_job
from .daemon_sets import explain_daemon_set
from .deletion import explain_deletion
from .failures import with_failures
from .jobs import explain_job
from .other_kinds import explain_other
from .own_causes import condition_cause, message_of
from .pods import explain_pod, explain_silence
from .quotas import explain_quota, used_up
from .replicas import explain_replica_set, explain_replication_controller
from .rivals import explain_rivals
from .rollout import explain_deployment
from .services import explain_service
from .stateful_sets import explain_stateful_set
from .target import KINDS, Target, resource_of
from .view import Unread, View

_WITH_ENDPOINTS: Final = frozenset(("FailsAgain", "NoLoadBalancer"))
"""The codes of causes of services that have ready endpoints."""

Summary = Callable[[Item], str]


def _available(item: Item) -> str:
    wanted = number_at(item.spec, "replicas", 1)
    return (
        f"{number_at(item.status, 'availableReplicas')} of {wanted} pods are available"
    )


def _rolled_out(item: Item) -> str:
    wanted = number_at(item.spec, "replicas", 1)
    updated = number_at(item.status, "updatedReplicas")
    new = "" if updated == wanted else f", {updated} have the current template"
    return _available(item) + new


def _on_nodes(item: Item) -> str:
    wanted = number_at(item.status, "desiredNumberScheduled")
    available = number_at(item.status, "numberAvailable")
    return f"{available} of {wanted} nodes have an available pod"


def _succeeded(item: Item) -> str:
    wanted = number_at(item.spec, "completions", 1)
    return f"{number_at(item.status, 'succeeded')} of {wanted} pods have succeeded"


def _phase(item: Item) -> str:
    return f"its phase is {text_at(item.status, 'phase') or 'unknown'}"


def _allowed(item: Item) -> str:
    allowed = number_at(item.status, "disruptionsAllowed")
    return f"{allowed or 'no'} pods may be evicted"


def _scheduled(item: Item) -> str:
    last = text_at(item.status, "lastScheduleTime")
    return f"its last run was {last}" if last else "it has had no run yet"


def _scaled(item: Item) -> str:
    target = item.spec.get("scaleTargetRef") or {}
    return f"it scales {target.get('kind')} {target.get('name')}"


def _filled(item: Item) -> str:
    full = ", ".join(used_up(item))
    return f"it is full: {full}" if full else "it has room"


def _too_small(item: Item, causes: Sequence[Cause]) -> str:
    """Return the summary of a quota that is not full, and not healthy either."""
    if used_up(item):
        return _filled(item)
    refuses = any(each.code == "QuotaFull" for each in causes)
    return "it has too little room" if refuses else "it is not counted"


_SUMMARIES: Final[dict[str, Summary]] = {
    "CronJob": _scheduled,
    "DaemonSet": _on_nodes,
    "Deployment": _rolled_out,
    "HorizontalPodAutoscaler": _scaled,
    "Job": _succeeded,
    "PersistentVolumeClaim": _phase,
    "Pod": _phase,
    "PodDisruptionBudget": _allowed,
    "ReplicaSet": _available,
    "ReplicationController": _available,
    "ResourceQuota": _filled,
    "StatefulSet": _available,
}


def summary_of(item: Item, state: State, causes: Sequence[Cause]) -> str:
    """Return a summary of an object's status, for the first line of its answer."""
    if item.deleted_at:
        return "it is being deleted"
    if item.resource.kind == "ResourceQuota" and state is not State.HEALTHY:
        return _too_small(item, causes)
    summary = _SUMMARIES.get(item.resource.kind)
    if summary is not None:
        return summary(item)
    serves = any(each.code in _WITH_ENDPOINTS for each in causes[:1])
    if item.resource.kind == "Service" and state is not State.HEALTHY and not serves:
        return "it has no ready endpoints"
    return "nothing is wrong" if state is State.HEALTHY else "something is wrong"


_REMEDIES: Final = {
    "DiskPressure": "free space on the disk of the node; its kubelet evicts pods",
    "MemoryPressure": "let pods of the node use less memory; its kubelet evicts pods",
    "PIDPressure": "let pods of the node start fewer processes",
    "NetworkUnavailable": "see that the network plugin runs on the node",
}
"""The remedies of the conditions of a ready node that keep new pods away."""

_MIRROR: Final = "kubernetes.io/config.mirror"


async def explain_node(view: View, item: Item) -> tuple[Cause, ...]:
    """Return the causes for which a node is not ready, or is not drained."""
    if lost := explain_silence(item):
        return (lost,)
    pressures = tuple(
        condition_cause(
            item,
            each,
            "NodePressure",
            f"the node has the condition {text_at(each, 'type')}: {message_of(each)}",
            _REMEDIES[text_at(each, "type")],
        )
        for each in item.conditions()
        if text_at(each, "type") in _REMEDIES and each.get("status") == "True"
    )
    if not item.spec.get("unschedulable"):
        return pressures
    return (*pressures, await _cordoned(view, item))


async def _cordoned(view: View, item: Item) -> Cause:
    """Return the cause for a node that takes no new pods, with what blocks a drain."""
    fields = f"spec.nodeName={item.name}"
    pods = [each for each in await view.list(PODS, fields=fields) if _is_drained(each)]
    writers = writers_of(item, "spec", "unschedulable")
    left = f", and a drain still has to evict {counted(len(pods))}" if pods else ""
    cause = item.cause(
        "Cordoned",
        f"the node takes no new pods{left}",
        "spec.unschedulable",
        writers[0].at if writers else "",
        remedy=f"to use it again: kubectl uncordon {item.name}",
        state=State.HEALTHY,
    )
    return symptom(cause, await _blocking(view, pods))


def _is_drained(pod: Item) -> bool:
    """Tell whether a drain evicts a pod: not those of daemon sets and static ones."""
    owner = pod.controller or {}
    is_left = owner.get("kind") == "DaemonSet" or _MIRROR in pod.annotations
    return not is_left and not is_terminal(pod.typed(Pod))


async def _blocking(view: View, pods: Sequence[Item]) -> Sequence[Cause]:
    """Return the causes for which budgets let no pod of a node be evicted."""
    found: list[Cause] = []
    for namespace in dict.fromkeys(each.namespace for each in pods):
        own = [each for each in pods if each.namespace == namespace]
        for budget in await view.list(BUDGETS, namespace):
            if any(protects(budget, each) for each in own):
                found += await explain_budget(view, budget)
    return found


Explain = Callable[[View, Item], Awaitable[tuple[Cause, ...]]]

_TOPICS: Final[dict[str, Explain]] = {
    "cronjobs.batch": explain_cron_job,
    "daemonsets.apps": explain_daemon_set,
    "deployments.apps": explain_deployment,
    "horizontalpodautoscalers.autoscaling": explain_autoscaler,
    "jobs.batch": explain_job,
    "nodes": explain_node,
    "persistentvolumeclaims": explain_claim,
    "poddisruptionbudgets.policy": explain_budget,
    "pods": explain_pod,
    "replicasets.apps": explain_replica_set,
    "replicationcontrollers": explain_replication_controller,
    "resourcequotas": explain_quota,
    "services": explain_service,
    "statefulsets.apps": explain_stateful_set,
}

_AT_A_TIME: Final = 8
"""The most objects that are explained at a time."""

_EACH: Final = "*"
"""The name that stands for all namespaces in a remark about them."""

_AS_FAR: Final = "nothing is wrong, as far as it can be read"

_WITH_RIVALS: Final = frozenset(
    ("daemonsets.apps", "deployments.apps", "replicasets.apps", "statefulsets.apps")
)


async def explain_target(view: View, target: Target, namespace: str) -> Explanation:
    """Return the explanation of a target; raises TargetError and Unread."""
    resource = await resource_of(view, target.kind)
    place = namespace if resource.namespaced else ""
    return await explain_item(view, await view.read(resource, place, target.name))


async def explain_all(
    view: View, namespace: str, resources: Sequence[AnyResource] = ()
) -> Sequence[Explanation]:
    """Return the explanations of a namespace's objects that are not healthy.

    With `resources`, all objects of them are explained, also those of the cluster.
    Without, those of `KINDS`; an object that another of them controls is left out: the
    explanation of its owner has it already. If a kind cannot be read, the namespace's
    explanation says so. A few objects are explained at a time; they share the answers
    of the API server. If the time of the view ends, the namespace's explanation names
    the others. Raises Unread without the namespace.
    """
    if not resources or any(each.namespaced for each in resources):
        await view.read(NAMESPACES, "", namespace)  # no answer without it
    listed: list[Sequence[Item]] = [
        await view.list(each, namespace if each.namespaced else "")
        for each in resources
    ]
    if not resources:
        listed = [await _to_explain(view, each, namespace) for each in KINDS]
    items = [each for found in listed for each in found]
    return await _not_healthy(
        view, namespace, items if resources else _without_owned(items)
    )


async def explain_everywhere(
    view: View, resources: Sequence[AnyResource] = ()
) -> Sequence[Explanation]:
    """Return the explanations of the objects of all namespaces that are not healthy.

    They are those of `explain_all` for each namespace, and the nodes. A line about an
    object that cannot be read is in one of them only. Raises Unread without the
    namespaces.
    """
    spaces = await view.list(NAMESPACES)
    if not spaces and view.unread:
        raise Unread(view.unread[0])
    local = [each for each in resources if each.namespaced]
    whole = [each for each in resources if not each.namespaced]
    listed = [await view.list(each) for each in (whole if resources else [NODES])]
    items = [each for found in listed for each in found]
    shown = list(await _not_healthy(view, _EACH, items))
    at_a_time = asyncio.Semaphore(_AT_A_TIME)

    async def explained(name: str) -> Sequence[Explanation]:
        async with at_a_time:
            if view.is_over:
                return (_not_looked_at(name),)
            return await explain_all(view.beside(), name, local)

    if local or not resources:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(explained(each.name)) for each in spaces]
        shown += [each for task in tasks for each in task.result()]
    return _told_once(shown)


def _not_looked_at(namespace: str) -> Explanation:
    """Return the remark about a namespace whose turn came after the last time."""
    reference = Reference("v1", "Namespace", "", namespace)
    return Explanation(
        object=reference,
        state=State.HEALTHY,
        summary=f"{_AS_FAR}; not looked at in time",
        timed_out=True,
        not_looked_at=(reference,),
    )


def _told_once(shown: Sequence[Explanation]) -> Sequence[Explanation]:
    """Return explanations without remarks that say nothing new.

    A remark is the explanation of a healthy namespace: some objects are unread.
    """
    told: set[str] = set()
    kept = []
    for each in shown:
        is_remark = each.state is State.HEALTHY and not each.not_looked_at
        if not is_remark or not told.issuperset(each.unread):
            kept.append(each)
        told.update(each.unread)
    return kept


def _without_owned(items: Sequence[Item]) -> Sequence[Item]:
    """Return the objects that are not below another one of them.

    Owners of each other, which anybody can make, are all returned.
    """
    by_uid = {each.uid: each for each in items}

    def owner_of(item: Item) -> Item | None:
        return by_uid.get(text_at(item.controller or {}, "uid"))

    def is_below(item: Item) -> bool:
        seen = {item.uid}
        above = owner_of(item)
        while above is not None and above.uid not in seen:
            seen.add(above.uid)
            above = owner_of(above)
        return above is None and len(seen) > 1

    return [each for each in items if not is_below(each)]


async def _not_healthy(
    view: View, namespace: str, items: Sequence[Item]
) -> Sequence[Explanation]:
    """Return the explanations of those objects of a namespace that are not healthy."""
    at_a_time = asyncio.Semaphore(_AT_A_TIME)

    async def explained(item: Item) -> Explanation | None:
        async with at_a_time:
            if view.is_over and item.resource is not NAMESPACES:
                return None
            return await explain_item(view.beside(), item)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(explained(each)) for each in items]
    found = [each.result() for each in tasks]
    left = tuple(
        item.reference
        for item, each in zip(items, found, strict=True)
        if each is None or (each.timed_out and each.state is State.HEALTHY)
    )
    shown = [each for each in found if each and each.state is not State.HEALTHY]
    for each in found:
        if each and each.state is State.HEALTHY:
            for line in each.unread:
                view.note(line)
    return _with_remark(shown, view, namespace, left)


def _with_remark(
    shown: Sequence[Explanation],
    view: View,
    namespace: str,
    left: tuple[Reference, ...],
) -> Sequence[Explanation]:
    """Return explanations with a remark if some objects were not looked at.

    The remark is in the explanation of the namespace.
    """
    if not view.unread and not left:
        return shown
    reference = Reference("v1", "Namespace", "", namespace)
    named = next((each for each in shown if each.object == reference), None)
    more = f"; {counted(len(left), 'object')} not looked at in time" if left else ""
    remark = named or Explanation(
        object=reference, state=State.HEALTHY, summary=_AS_FAR + more
    )
    remark = replace(
        remark,
        unread=tuple(dict.fromkeys((*remark.unread, *view.unread))),
        timed_out=remark.timed_out or view.is_cut or bool(left),
        not_looked_at=left,
    )
    return [*(each for each in shown if each is not named), remark]


async def _to_explain(
    view: View, resource: AnyResource, namespace: str
) -> Sequence[Item]:
    if not resource.namespaced:
        return [await view.read(resource, "", namespace)]
    return await view.list(resource, namespace)


async def explain_item(view: View, item: Item) -> Explanation:
    """Return the explanation of an object."""
    try:
        causes = worst_first(await _causes(view, item))
    except msgspec.ValidationError as error:
        causes = (_unusable(item, error),)
    state = worst_of(causes)
    if view.unread and state is State.HEALTHY and not causes:
        summary = _AS_FAR
    else:
        summary = summary_of(item, state, causes)
    return Explanation(
        object=item.reference,
        state=state,
        summary=summary,
        causes=causes,
        unread=view.unread,
        timed_out=view.is_cut,
    )


def _unusable(item: Item, error: msgspec.ValidationError) -> Cause:
    """Return the cause of an answer that cannot be given: never call that healthy."""
    return item.cause(
        "UnusableField",
        f"this object, or one around it, has an unusable field: {error}",
        remedy="look at the objects with kubectl get -o yaml, and correct the field",
    )


async def _causes(view: View, item: Item) -> tuple[Cause, ...]:
    if item.deleted_at:
        return await explain_deletion(view, item)
    name = item.resource.group_resource
    if name in _TOPICS:
        causes = await _TOPICS[name](view, item)
    elif item.resource is NAMESPACES:
        causes = ()
    else:
        causes = await explain_other(view, item, _causes)
    causes = await with_failures(view, item, causes)
    if name in _WITH_RIVALS:
        return (*causes, *await explain_rivals(view, item))
    return causes
