"""Explains containers that their kubelet has not started yet."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from .cause import Cause, State
from .container import Container, short_message
from .events import Event, events_of
from .items import text_at
from .view import View

_VOLUMES: Final = ("FailedAttachVolume", "FailedMount", "FailedMapVolume")
_NOT_ATTACHED: Final = "FailedAttachVolume"
_ATTACHED: Final = "SuccessfulAttachVolume"
_PULLING_NOW: Final = "Pulling"
_LATER: Final = (_PULLING_NOW, "Pulled", "Created", "Started")
"""The reasons of events that follow once the sandbox and the volumes are made."""

_SANDBOX: Final = "FailedCreatePodSandBox"
_PATIENCE: Final = timedelta(minutes=10)
"""The time in which a kubelet starts a container, or records an event."""


async def explain_start(view: View, each: Container) -> Cause:
    """Return the cause for a container that its kubelet has not started yet."""
    found = await events_of(view, each.pod, (*_VOLUMES, _SANDBOX, *_LATER, _ATTACHED))
    failed = next((one for one in found if _holds(one, found)), None)
    if failed is None:
        return _no_event(
            view, each, is_pulling=bool(found) and found[0].reason == _PULLING_NOW
        )
    is_sandbox = failed.reason == _SANDBOX
    part = "sandbox" if is_sandbox else "volumes"
    return each.cause(
        "Sandbox" if is_sandbox else "VolumeMount",
        State.STUCK,
        f"the {part} of the pod cannot be made: {short_message(failed.message)}",
        since=failed.at,
        remedy="look at the network plugin and the runtime of the node"
        if is_sandbox
        else "correct the volume of the pod, or create the object that it needs",
    )


def _holds(failed: Event, found: Sequence[Event]) -> bool:
    """Tell whether an event is a failure that no later event shows to be over."""
    if failed.reason not in (*_VOLUMES, _SANDBOX):
        return False
    over = {*_LATER, _ATTACHED} if failed.reason == _NOT_ATTACHED else set(_LATER)
    return not any(one.at > failed.at and one.reason in over for one in found)


def _no_event(view: View, each: Container, *, is_pulling: bool) -> Cause:
    """Return the cause for a container that does not start, and no event says why."""
    scheduled = each.pod.condition("PodScheduled") or {}
    since = text_at(scheduled, "lastTransitionTime") or each.pod.created_at
    is_late = view.age(since) > _PATIENCE and not is_pulling
    node = text_at(each.pod.spec, "nodeName")
    return each.cause(
        "Starting",
        State.STUCK if is_late else State.PROGRESSING,
        f"the kubelet pulls the image of the container {each.name}"
        if is_pulling
        else f"the kubelet starts the container {each.name}",
        since=each.pod.created_at,
        remedy=f"look at the log of the kubelet of {node}" if is_late else "",
    )
