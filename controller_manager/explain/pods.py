"""Explains pods: why one has no node, is not available, has failed, or does not end."""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from controller_manager.api.core.v1 import NODES, Pod
from controller_manager.api.json_objects import object_at, objects_at
from controller_manager.api.pods import available_at, is_ready
from controller_manager.api.scalars import format_time
from controller_manager.controllers.apps.daemonset.nodes import target_of

from .cause import Cause, Item, State, number_at, symptom, text_at
from .claims import UNSCHEDULABLE, explain_claims_of_pod
from .containers import explain_containers, has_done_container
from .own_causes import explain_finalizers
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
        return pod.cause(
            "SchedulingGated",
            f"the scheduling gate {', '.join(gates)} keeps the scheduler from "
            "looking at the pod",
            "spec.schedulingGates",
            pod.created_at,
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
    cause = pod.cause(
        "Unschedulable",
        what,
        "status.conditions[PodScheduled]",
        text_at(condition, "lastTransitionTime"),
        remedy="" if claims or nominated else remedy_for(message),
        state=State.PROGRESSING if nominated else State.STUCK,
    )
    return symptom(cause, claims)


def _not_looked_at(view: View, pod: Item) -> Cause:
    name = text_at(pod.spec, "schedulerName") or "default-scheduler"
    is_new = view.age(pod.created_at) < _PATIENCE
    return pod.cause(
        "NotScheduled",
        f"the scheduler {name} has not looked at the pod",
        "spec.schedulerName",
        pod.created_at,
        remedy="" if is_new else f"see that the scheduler {name} runs",
        state=State.PROGRESSING if is_new else State.STUCK,
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


_RESIZES: Final = ("PodResizePending", "PodResizeInProgress")
_OVERDUE: Final = timedelta(seconds=30)
"""The time after the grace period in which a kubelet removes a pod."""


async def explain_pod(
    view: View, pod: Item, min_ready_seconds: int = 0
) -> tuple[Cause, ...]:
    """Return the causes for which a pod is not available; none for one that is.

    A pod that has succeeded needs nothing, so it has no cause either.
    """
    phase = text_at(pod.status, "phase")
    if pod.deleted_at:
        return (await explain_ending(view, pod),)
    if phase == "Succeeded":
        return ()
    if phase == "Failed":
        return (explain_failed(pod),)
    if not text_at(pod.spec, "nodeName"):
        return (await explain_unscheduled(view, pod),)
    if lost := await _lost_node(view, pod):
        return (lost,)
    if found := await explain_containers(view, pod):
        return found
    typed = pod.typed(Pod)
    if not is_ready(typed):
        return () if has_done_container(pod) else (_not_ready(pod),)
    end = available_at(typed, min_ready_seconds)
    if min_ready_seconds and end is not None and end > view.now:
        return (
            pod.cause(
                "MinReadySeconds",
                f"the pod must be ready for {min_ready_seconds} s: "
                "minReadySeconds still runs",
                "spec.minReadySeconds of its owner",
                text_at(pod.condition("Ready") or {}, "lastTransitionTime"),
                remedy=f"wait until {format_time(end)}",
                state=State.PROGRESSING,
            ),
        )
    return _not_resized(pod)


def _not_resized(pod: Item) -> tuple[Cause, ...]:
    """Return the cause for a pod whose kubelet does not give it its new resources."""
    for each in pod.conditions():
        reason, name = text_at(each, "reason"), text_at(each, "type")
        if name not in _RESIZES or each.get("status") != "True":
            continue
        message = text_at(each, "message").rstrip(".")
        is_stuck = reason in ("Error", "Infeasible")
        return (
            pod.cause(
                "ResizePending",
                f"the node has not resized the pod ({reason or name})"
                + (f": {message}" if message else ""),
                f"status.conditions[{name}]",
                text_at(each, "lastTransitionTime"),
                remedy="ask for resources that the node has, or create the pod again"
                if is_stuck
                else "",
                state=State.STUCK if is_stuck else State.PROGRESSING,
            ),
        )
    return ()


async def explain_ending(view: View, pod: Item) -> Cause:
    """Return the cause for which a pod that is being deleted is still there.

    Finalizers hold it only once its containers have ended: the kubelet deletes it with
    a grace period of 0 then.
    """
    grace = number_at(pod.metadata, "deletionGracePeriodSeconds")
    if not (grace and _may_run(pod)) and (held := explain_finalizers(view, pod)):
        return held
    if lost := await _lost_node(view, pod):
        return lost
    is_overdue = view.age(pod.deleted_at) > _OVERDUE
    node = text_at(pod.spec, "nodeName")
    return pod.cause(
        "KubeletDoesNotEnd" if is_overdue else "Terminating",
        f"the kubelet of {node} has not ended the pod after its grace period"
        if is_overdue
        else f"the pod ends within its grace period of {grace} s",
        "metadata.deletionTimestamp",
        pod.deleted_at,
        remedy=f"look at the kubelet and the runtime of {node}" if is_overdue else "",
        state=State.STUCK if is_overdue else State.PROGRESSING,
    )


def _may_run(pod: Item) -> bool:
    """Tell whether a kubelet may still run containers of a pod."""
    is_over = text_at(pod.status, "phase") in ("Failed", "Succeeded")
    return bool(text_at(pod.spec, "nodeName")) and not is_over


def explain_failed(pod: Item) -> Cause:
    """Return the cause for which a pod has failed."""
    why = text_at(pod.status, "reason")
    message = " ".join(text_at(pod.status, "message").split()).rstrip(".")
    text = ": ".join(filter(None, (why, message)))
    field, since = "status.reason", pod.created_at
    for kind in ("initContainerStatuses", "containerStatuses"):
        for each in objects_at(pod.status, kind):
            end = object_at(object_at(each, "state"), "terminated")
            if code := number_at(end, "exitCode"):
                name, reason = text_at(each, "name"), text_at(end, "reason")
                known = f" ({reason})" if reason not in ("", "Error") else ""
                if not text:
                    text = f"the container {name} ended with exit code {code}{known}"
                    field = f"status.{kind}[{name}].state.terminated"
                since = text_at(end, "finishedAt") or since
    return pod.cause(
        "PodFailed",
        f"the pod failed: {text or 'no container says why'}",
        field,
        since,
        remedy=f"read its log: kubectl logs -n {pod.namespace} {pod.name} "
        "--all-containers",
    )


async def _lost_node(view: View, pod: Item) -> Cause | None:
    """Return the cause if the node of a pod is gone, or does not report."""
    name = text_at(pod.spec, "nodeName")
    node = await view.find(NODES, "", name) if name else None
    if node is None:
        if not name or not await view.is_missing(NODES, "", name):
            return None
        return pod.cause(
            "NodeGone",
            f"the node {name} of the pod is gone",
            "spec.nodeName",
            pod.deleted_at or pod.created_at,
            remedy="wait for the pod garbage collector, or delete the pod with --force",
            state=State.PROGRESSING,
        )
    return explain_silence(node)


def explain_silence(node: Item) -> Cause | None:
    """Return the cause for which a node is not ready, `None` for a ready one."""
    ready = node.condition("Ready") or {}
    if ready.get("status") == "True":
        return None
    message = text_at(ready, "message").rstrip(".") or "it has not reported"
    return node.cause(
        "NodeNotReady",
        f"the node {node.name} is not ready: {message}",
        "status.conditions[Ready]",
        text_at(ready, "lastTransitionTime") or node.created_at,
        remedy=f"start the kubelet of {node.name}, or delete the node if it does not "
        "return",
    )


def _not_ready(pod: Item) -> Cause:
    """Return the cause for a pod that is not ready although its containers are."""
    for gate in objects_at(pod.spec, "readinessGates"):
        name = text_at(gate, "conditionType")
        condition = pod.condition(name) or {}
        if condition.get("status") != "True":
            message = text_at(condition, "message").rstrip(".")
            return pod.cause(
                "ReadinessGate",
                f"the readiness gate {name} is not true"
                + (f": {message}" if message else ""),
                f"status.conditions[{name}]",
                text_at(condition, "lastTransitionTime") or pod.created_at,
                remedy=f"see that the controller that sets the condition {name} runs",
            )
    ready = pod.condition("Ready") or {}
    return pod.cause(
        "NotReady",
        "the kubelet has not reported the pod as ready yet",
        "status.conditions[Ready]",
        text_at(ready, "lastTransitionTime") or pod.created_at,
        state=State.PROGRESSING,
    )
