"""Explains daemon sets: the nodes without an available pod, and the nodes left out."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from controller_manager.api.apps.v1 import DaemonSet
from controller_manager.api.core.scheduling import NO_EXECUTE, NO_SCHEDULE
from controller_manager.api.core.v1 import NODES, Node, Pod
from controller_manager.api.pods import is_available
from controller_manager.control.scheduling import untolerated
from controller_manager.controllers.apps.daemonset.nodes import (
    Fit,
    Placement,
    placement_of,
    target_of,
)

from .cause import Cause, Item, State, counted, merged, symptom
from .creation import explain_missing
from .mutated import explain_mutated_revisions
from .own_causes import explain_inaction, left_for_deletion
from .replicas import evicted_from, explain_pods
from .view import View, has_all_pods, pods_of

_ON_DELETE: Final = "OnDelete"
_SHOWN: Final = 5
"""The most names of nodes in a sentence."""


async def explain_daemon_set(view: View, item: Item) -> tuple[Cause, ...]:
    """Return the causes for which nodes lack an available pod of a daemon set.

    Nodes that its pods may not run on are worth knowing, and no trouble.
    """
    if inaction := await explain_inaction(view, item):
        return (inaction,)
    if mutated := await explain_mutated_revisions(view, item):
        return mutated
    typed = item.typed(DaemonSet)
    pods = await pods_of(view, item, typed.spec.selector)
    found = await view.list(NODES)
    if not (view.is_whole(NODES) and has_all_pods(view, item, typed.spec.selector)):
        return await _by_status(view, item, typed, pods)
    placement = placement_of(typed.spec.template, compares_numbers=False)
    nodes = {each.name: each for each in found}
    fits = {name: placement.fit(each.typed(Node)) for name, each in nodes.items()}
    waiting = await _waiting(view, item, typed, fits, pods)
    left_out = merged(
        _left_out(each, placement)
        for name, each in sorted(nodes.items())
        if fits[name] is not Fit.RUN
    )
    needed = [each for name, each in nodes.items() if fits[name] is Fit.RUN]
    evicted = merged(
        cause
        for each in needed
        for cause in evicted_from([each], placement.tolerations, is_bound=False)
    )
    return (*evicted, *(waiting or _update(item, typed)), *left_out)


async def _waiting(
    view: View,
    item: Item,
    typed: DaemonSet,
    fits: Mapping[str, Fit],
    pods: Sequence[Item],
) -> tuple[Cause, ...]:
    """Return the cause for nodes that need a pod and have no available one."""
    needed = [name for name, fit in sorted(fits.items()) if fit is Fit.RUN]
    by_node: dict[str, list[Item]] = {}
    for each in pods:
        by_node.setdefault(target_of(each.typed(Pod)), []).append(each)
    seconds = typed.spec.min_ready_seconds
    lacking = [
        name
        for name in needed
        if not any(
            is_available(each.typed(Pod), seconds, view.now)
            for each in by_node.get(name, ())
        )
    ]
    if not lacking:
        return ()
    empty = [name for name in lacking if name not in by_node]
    found: list[Cause] = []
    if empty:
        what = f"no pod exists yet for {_named(empty)}"
        field = "status.currentNumberScheduled"
        found.append(await explain_missing(view, item, len(empty), what, field))
    for name in lacking:
        found += await explain_pods(view, _newest(by_node.get(name, ())), seconds)
    what = (
        f"{len(lacking)} of {len(needed)} nodes have no available pod: "
        f"{_named(lacking)}"
    )
    return (symptom(_lacking(item, what), merged(found)),)


def _newest(pods: Sequence[Item]) -> Sequence[Item]:
    """Return the pods of a node that stay; those that end if there are no others.

    While a pod is replaced, a node has two.
    """
    return [each for each in pods if not each.deleted_at] or pods


def _update(item: Item, typed: DaemonSet) -> tuple[Cause, ...]:
    """Return the cause for pods of an old template."""
    status = typed.status
    wanted = status.desired_number_scheduled
    old = wanted - status.updated_number_scheduled
    if old <= 0:
        return ()
    if typed.spec.update_strategy.type == _ON_DELETE:
        return (left_for_deletion(item, old),)
    return (
        item.cause(
            "RolloutWaits",
            f"{status.updated_number_scheduled} of {counted(wanted)} have the "
            "current template",
            "status.updatedNumberScheduled",
            state=State.PROGRESSING,
        ),
    )


async def _by_status(
    view: View, item: Item, typed: DaemonSet, pods: Sequence[Item]
) -> tuple[Cause, ...]:
    """Return the cause that the status shows, if not all nodes and pods were read."""
    status = typed.status
    if not status.number_unavailable:
        return _update(item, typed)
    causes = await explain_pods(view, pods, typed.spec.min_ready_seconds)
    what = (
        f"{status.number_unavailable} of {status.desired_number_scheduled} nodes have "
        "no available pod"
    )
    return (symptom(_lacking(item, what), causes),)


def _lacking(item: Item, what: str) -> Cause:
    return item.cause(
        "NodesWithoutPod",
        what,
        "status.numberUnavailable",
        item.created_at,
        state=State.PROGRESSING,
    )


def _named(names: Sequence[str]) -> str:
    """Return names as a list, only the first of many."""
    shown = ", ".join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _left_out(node: Item, placement: Placement) -> Cause:
    """Return the remark about a node that the daemon set leaves out."""
    why, field = next(_reasons(node.typed(Node), placement))
    return node.cause(
        "NodeLeftOut",
        f"the daemon set leaves the node out: {why}",
        field,
        node.created_at,
        remedy="to have a pod there, tolerate the taint or correct the nodeSelector",
        state=State.HEALTHY,
    )


def _reasons(node: Node, placement: Placement) -> Iterator[tuple[str, str]]:
    """Yield the reasons for which a node is left out, with the field of each."""
    if placement.node_name and placement.node_name != node.metadata.name:
        yield f"spec.nodeName of its pods is {placement.node_name}", "metadata.name"
    if not placement.required.matches(node):
        yield (
            "its labels do not match the nodeSelector or the affinity of the pods",
            "metadata.labels",
        )
    taint = untolerated(
        node.spec.taints, placement.tolerations, (NO_EXECUTE, NO_SCHEDULE)
    )
    if taint is not None:
        value = f"={taint.value}" if taint.value else ""
        yield f"the taint {taint.key}{value}:{taint.effect}", "spec.taints"
    yield "it does not fit", "spec"
