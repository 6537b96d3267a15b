"""Explains nodes: one that does not report, and one that cannot be drained."""

from collections.abc import Sequence
from typing import Final

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.pods import is_terminal
from controller_manager.api.policy.v1 import BUDGETS

from .budgets import explain_budget, protects
from .cause import Cause, State, counted, symptom
from .condition_causes import condition_cause, message_of
from .items import Item, text_at
from .managed_fields import writers_of
from .pods import explain_silence
from .view import View

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
    cause = Cause(
        code="Cordoned",
        state=State.HEALTHY,
        what=f"the node takes no new pods{left}",
        object=item.reference,
        field="spec.unschedulable",
        since=writers[0].at if writers else "",
        remedy=f"to use it again: kubectl uncordon {item.name}",
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
