"""Explains pods that have no node."""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from controller_manager.api.core.v1 import Pod
from controller_manager.api.json_objects import objects_at
from controller_manager.controllers.apps.daemonset.nodes import target_of

from .cause import Cause, State, symptom
from .claims import UNSCHEDULABLE, explain_claims_of_pod
from .items import Item, text_at
from .view import View

_PATIENCE: Final = timedelta(seconds=30)
"""The time in which a scheduler looks at a new pod."""

_NO_NODE: Final = re.compile(r"0/(\d+) nodes are available: (.+)", re.DOTALL)
_TAIL: Final = re.compile(
    r"\s*(?:preemption: |no new claims to deallocate).*", re.DOTALL
)
_REASON: Final = re.compile(r"(\d+) (.+)")
_OTHER_NODES: Final = re.compile(r"\[NodeAffinity\]|node affinity/selector")
_REMEDIES: Final = (
    ("Insufficient", "lower the requests of the pod, or add nodes with more room"),
    ("Too many pods", "add nodes, or remove pods from them"),
    ("taint", "tolerate the taint in the pod, or remove it from the nodes"),
    ("unschedulable", "uncordon the nodes: kubectl uncordon NODE"),
    (
        "node affinity/selector",
        "correct the nodeSelector or affinity of the pod, or label a node",
    ),
    ("pod affinity", "correct the affinity to other pods, or start those first"),
    ("anti-affinity", "add nodes, or loosen the anti-affinity of the pods"),
    ("topology spread", "add nodes, or loosen the topology spread constraints"),
    ("free ports", "add nodes, or give the pod no host port"),
    ("persistentvolumeclaim", "create the claim, or correct its name in the pod"),
    ("volume", "look at the claims of the pod: its volumes keep it from the nodes"),
)
_ELSE: Final = "correct the requirements of the pod, or add nodes that meet them"


async def explain_unscheduled(view: View, pod: Item) -> Cause:
    """Return the cause for which a pod has no node."""
    gates = [text_at(each, "name") for each in objects_at(pod.spec, "schedulingGates")]
    if gates:
        return Cause(
            code="SchedulingGated",
            state=State.STUCK,
            what=f"the scheduling gate {', '.join(gates)} keeps the scheduler from "
            "looking at the pod",
            object=pod.reference,
            field="spec.schedulingGates",
            since=pod.created_at,
            remedy="find the controller that removes the gate, and see that it runs",
        )
    condition = pod.condition("PodScheduled") or {}
    if condition.get("reason") != UNSCHEDULABLE:
        return _not_looked_at(view, pod)
    message = text_at(condition, "message")
    claims = await explain_claims_of_pod(view, pod)
    node = target_of(pod.typed(Pod))
    if node:
        message = _about_one_node(message)
    what = f"the node {node} does not fit: {message}" if node else condensed(message)
    nominated = text_at(pod.status, "nominatedNodeName")
    if nominated:
        what += f"; pods with a lower priority leave the node {nominated} for it"
    cause = Cause(
        code="Unschedulable",
        state=State.PROGRESSING if nominated else State.STUCK,
        what=what,
        object=pod.reference,
        field="status.conditions[PodScheduled]",
        since=text_at(condition, "lastTransitionTime"),
        remedy="" if claims or nominated else remedy_for(message),
    )
    return symptom(cause, claims)


def _not_looked_at(view: View, pod: Item) -> Cause:
    name = text_at(pod.spec, "schedulerName") or "default-scheduler"
    is_new = view.age(pod.created_at) < _PATIENCE
    return Cause(
        code="NotScheduled",
        state=State.PROGRESSING if is_new else State.STUCK,
        what=f"the scheduler {name} has not looked at the pod",
        object=pod.reference,
        field="spec.schedulerName",
        since=pod.created_at,
        remedy="" if is_new else f"see that the scheduler {name} runs",
    )


def _about_one_node(message: str) -> str:
    """Return the reasons of a message that matter for a pod of one node.

    The scheduler also counts all other nodes, which the pod's affinity excludes.
    """
    _, _, reasons = condensed(message).partition(": ")
    kept = [_REASON.sub(r"\2", each) for each in reasons.split(", ") if each]
    own = [each for each in kept if not _OTHER_NODES.search(each)]
    return ", ".join(own or kept) or message


def condensed(message: str) -> str:
    """Return the scheduler's message in short: the reasons, the most frequent first.

    The words about preemption are left out. Another message is returned as it is.
    """
    text = " ".join(message.split())
    found = _NO_NODE.match(text)
    if found is None:
        return _TAIL.sub("", text).rstrip(".") or "no node fits"
    reasons = _reasons(_TAIL.sub("", found[2]).rstrip("."))
    return f"none of {found[1]} nodes fits: {', '.join(reasons)}"


def _reasons(text: str) -> Sequence[str]:
    """Return the reasons of a list, the one with the most nodes first."""
    parts = [_REASON.fullmatch(each.rstrip(".")) for each in text.split(", ")]
    if not all(parts):
        return [text]
    counted = [(int(each[1]), each[2]) for each in parts if each is not None]
    return [f"{count} {reason}" for count, reason in sorted(counted, key=_most_first)]


def _most_first(counted: tuple[int, str]) -> tuple[int, str]:
    return -counted[0], counted[1]


def remedy_for(message: str) -> str:
    """Return the remedy for the most frequent reason in the scheduler's message."""
    found = condensed(message)
    _, _, reasons = found.partition(": ")
    first = (reasons or found).split(", ")[0]
    for word, remedy in _REMEDIES:
        if word in first:
            return remedy
    return _ELSE
