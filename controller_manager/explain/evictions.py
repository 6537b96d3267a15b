"""Explains pods that a taint of their node evicts, and their owner makes again."""

from collections.abc import Sequence
from functools import cache
from typing import Final

import msgspec

from controller_manager.api.core.scheduling import SchedulingSpec, Taint, Toleration
from controller_manager.api.core.v1 import NODES, Node
from controller_manager.api.json_objects import JSON, Decoder, object_at
from controller_manager.control.scheduling import required_nodes
from controller_manager.controllers.nodes.tainteviction.evictions import (
    no_execute,
    tolerated_seconds,
    used_tolerations,
)

from .cause import Cause, State
from .items import Item, number_at
from .view import View

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
    return Cause(
        code="NodeGone",
        state=State.STUCK,
        what=f"the node {name}, which the template names, does not exist: the pod "
        "garbage collector deletes each pod",
        object=owner.reference,
        field="spec.template.spec.nodeName",
        since=owner.created_at,
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
        Cause(
            code="TaintEvicts",
            state=State.STUCK,
            what=f"the pods may run only on {names}{more}, whose taint {taint.key}"
            f"{value}:{taint.effect} evicts each of them"
            + (f" after {seconds} s" if seconds else ""),
            object=nodes[0].reference,
            field="spec.taints",
            since=taint.time_added or "",
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
        each for each in no_execute(node.spec.taints) if each.key not in _OF_HEALTH
    ]
    ends: list[tuple[int, Taint]] = []
    for each in taints:
        used = used_tolerations((each,), tolerations, compares_numbers=False)
        if used is None and not is_bound:
            return None
        seconds = 0 if used is None else tolerated_seconds(used)
        if seconds is not None:
            ends.append((seconds, each))
    if not ends:
        return None
    seconds, taint = min(ends, key=lambda end: end[0])
    return taint, seconds
