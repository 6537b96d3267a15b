"""Explains owners of pods: missing pods, pods not available, and evicted ones."""

from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from typing import Final

import msgspec

from controller_manager.api.apps.v1 import ReplicaSet, desired_replicas
from controller_manager.api.core.scheduling import SchedulingSpec, Taint, Toleration
from controller_manager.api.core.v1 import NODES, Node, Pod, ReplicationController
from controller_manager.api.json_objects import JSON, Decoder, object_at
from controller_manager.api.pods import is_active, is_available
from controller_manager.api.selectors import LabelSelector
from controller_manager.control.scheduling import required_nodes
from controller_manager.controllers.nodes.tainteviction import evictions

from .cause import Cause, Item, State, merged, number_at, text_at
from .creation import explain_missing
from .own_causes import explain_inaction
from .pods import explain_ending, explain_failed, explain_pod
from .view import View, has_all_pods, pods_of

_SHOWN: Final = 3

_OF_HEALTH: Final = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
)
"""Taints of nodes about which a pod says more: they do not report."""


async def explain_evictions(view: View, owner: Item) -> tuple[Cause, ...]:
    """Return the cause if each pod of an owner is evicted from each node that it fits.

    Only owners whose template fixes the nodes are concerned: the pods of others go
    elsewhere. A pod that the taint keeps away is the scheduler's matter, unless the
    template names the node.
    """
    if number_at(owner.spec, "replicas", 1) == 0:
        return ()
    spec = _pod_spec(owner)
    required = required_nodes(spec.node_selector, spec.affinity)
    if not (spec.node_name or spec.node_selector or required.terms is not None):
        return ()
    found = await view.list(NODES)
    if not view.is_whole(NODES):
        return ()
    nodes = [
        each
        for each in found
        if (each.name == spec.node_name if spec.node_name else True)
        and required.matches(each.typed(Node))
    ]
    if spec.node_name and not any(each.name == spec.node_name for each in found):
        return (_without_node(owner, spec.node_name),)
    return evicted_from(nodes, spec.tolerations or (), is_bound=bool(spec.node_name))


def _without_node(owner: Item, name: str) -> Cause:
    """Return the cause for a template that names a node that does not exist."""
    return owner.cause(
        "NodeGone",
        f"the node {name}, which the template names, does not exist: the pod "
        "garbage collector deletes each pod",
        "spec.template.spec.nodeName",
        owner.created_at,
        remedy="name another node, or leave the choice to the scheduler",
    )


def evicted_from(
    nodes: Sequence[Item], tolerations: Sequence[Toleration], *, is_bound: bool
) -> tuple[Cause, ...]:
    """Return the cause if taints of all nodes evict pods with these tolerations.

    `is_bound` says that no scheduler keeps the pods away.
    """
    ends = [_end(each.typed(Node), tolerations, is_bound=is_bound) for each in nodes]
    first = next(iter(ends), None)
    if first is None or any(each is None for each in ends):
        return ()
    taint, seconds = first
    value = f"={taint.value}" if taint.value else ""
    names = ", ".join(each.name for each in nodes[:_SHOWN])
    more = f" and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else ""
    return (
        nodes[0].cause(
            "TaintEvicts",
            f"the pods may run only on {names}{more}, whose taint {taint.key}"
            f"{value}:{taint.effect} evicts each of them"
            + (f" after {seconds} s" if seconds else ""),
            "spec.taints",
            taint.time_added or "",
            remedy="tolerate the taint without an end in the pod template, remove it "
            "from the node, or let the pods run on other nodes",
        ),
    )


def _pod_spec(owner: Item) -> SchedulingSpec:
    template: JSON = object_at(owner.spec, "template")
    return _decoder().decode(msgspec.json.encode(object_at(template, "spec")))


@cache
def _decoder() -> Decoder[SchedulingSpec]:
    return Decoder(SchedulingSpec)


def _end(
    node: Node, tolerations: Sequence[Toleration], *, is_bound: bool
) -> tuple[Taint, int] | None:
    """Return a taint that evicts a pod, and after how many seconds; `None` for none."""
    taints = [
        each
        for each in evictions.no_execute(node.spec.taints)
        if each.key not in _OF_HEALTH
    ]
    ends: list[tuple[int, Taint]] = []
    for each in taints:
        used = evictions.used_tolerations((each,), tolerations, compares_numbers=False)
        if used is None and not is_bound:
            return None
        seconds = 0 if used is None else evictions.tolerated_seconds(used)
        if seconds is not None:
            ends.append((seconds, each))
    if not ends:
        return None
    seconds, taint = min(ends, key=lambda end: end[0])
    return taint, seconds


_FIELD: Final = "status.replicas"
_MANY: Final = 3
_RECENT: Final = timedelta(minutes=10)
"""The number and the age of failed pods from which on the next one fails, too."""

_EXAMPLES: Final = 20
"""The most pods of an owner that are explained."""


async def explain_replica_set(view: View, item: Item) -> tuple[Cause, ...]:
    """Return the causes for which a replica set lacks available pods."""
    typed = item.typed(ReplicaSet)
    selector = typed.spec.selector
    return await _explain(view, item, typed, selector, typed.spec.min_ready_seconds)


async def explain_replication_controller(view: View, item: Item) -> tuple[Cause, ...]:
    """Return the causes for which a replication controller lacks available pods."""
    typed = item.typed(ReplicationController)
    selector = LabelSelector(match_labels=typed.spec.selector)
    return await _explain(view, item, typed, selector, typed.spec.min_ready_seconds)


async def _explain(
    view: View,
    item: Item,
    typed: ReplicaSet | ReplicationController,
    selector: LabelSelector | None,
    min_ready_seconds: int,
) -> tuple[Cause, ...]:
    if inaction := await explain_inaction(view, item):
        return (inaction,)
    evicted = await explain_evictions(view, item)
    pods = await pods_of(view, item, selector)
    active = [each for each in pods if is_active(each.typed(Pod))]
    wanted, exist = desired_replicas(typed), typed.status.replicas
    if has_all_pods(view, item, selector):
        exist = len(active)
    first: tuple[Cause, ...] = ()
    if exist < wanted:
        first = (await _missing(view, item, wanted - exist),)
    elif exist > wanted:
        first = (_surplus(item, exist - wanted),)
    found = (*first, *await explain_pods(view, active, min_ready_seconds))
    if found:
        found = (*found, *_failing(view, pods))
    if evicted:
        # The next pod, or one that starts or ends, is a part of the circle.
        found = tuple(each for each in found if each.state is State.STUCK)
    return (*evicted, *found, *await stuck_endings(view, pods))


async def _missing(view: View, owner: Item, count: int) -> Cause:
    what = f"{count} pods do not exist yet" if count > 1 else "a pod does not exist yet"
    return await explain_missing(view, owner, count, what, _FIELD)


async def explain_pods(
    view: View, pods: Sequence[Item], min_ready_seconds: int
) -> tuple[Cause, ...]:
    """Return the causes for which pods are not available, like ones merged."""
    found: list[Cause] = []
    for each in _unavailable(view, pods, min_ready_seconds)[:_EXAMPLES]:
        found += await explain_pod(view, each, min_ready_seconds)
    return merged(found)


def _unavailable(
    view: View, pods: Sequence[Item], min_ready_seconds: int
) -> Sequence[Item]:
    return [
        each
        for each in sorted(pods, key=lambda each: each.name)
        if not is_available(each.typed(Pod), min_ready_seconds, view.now)
    ]


def _failing(view: View, pods: Sequence[Item]) -> tuple[Cause, ...]:
    """Return the causes for which pods fail again and again.

    A kubelet lets a pod fail that it has no place for. The owner makes the next one at
    once, and leaves those that have failed.
    """
    failed = [
        each
        for each in pods
        if text_at(each.status, "phase") == "Failed"
        and view.age(each.created_at) < _RECENT
    ]
    if len(failed) < _MANY:
        return ()
    return merged(map(explain_failed, failed[:_EXAMPLES]))


def _surplus(owner: Item, count: int) -> Cause:
    return owner.cause(
        "PodsSurplus",
        f"{count} pods too many exist: the controller deletes them",
        _FIELD,
        state=State.PROGRESSING,
    )


async def stuck_endings(view: View, pods: Sequence[Item]) -> tuple[Cause, ...]:
    """Return the causes for which pods that are being deleted never end.

    Their owner has others, and is as stuck as they are.
    """
    found = await explain_ending_pods(view, pods)
    return tuple(each for each in found if each.state is State.STUCK)


async def explain_ending_pods(view: View, pods: Sequence[Item]) -> tuple[Cause, ...]:
    """Return the causes for which pods that are being deleted are still there."""
    ending = [each for each in pods if each.deleted_at]
    return merged([await explain_ending(view, each) for each in ending[:_EXAMPLES]])
