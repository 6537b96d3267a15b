"""The root cause of an explanation as one code, to count objects by it."""

from typing import Final

from controller_manager.api.resource import AnyResource
from controller_manager.client.client import Client
from controller_manager.client.server_clock import ServerClock
from controller_manager.runtime.registry import RootCause

from .cause import Cause, Explanation, State
from .explainer import explain_item
from .view import Missing, Unread, View

_REQUEST_SECONDS: Final = 5.0
_SECONDS: Final = 60.0
"""The time of an explanation: the others of the same minute must have theirs."""

_SYMPTOMS: Final = frozenset(
    ("DeadlinePassed", "NodesWithoutPod", "PodsMissing", "RolloutWaits")
)
"""Codes that are a root only if the objects that show the cause are unread."""


async def root_cause(
    client: Client,
    clock: ServerClock,
    resource: AnyResource,
    namespace: str,
    name: str,
) -> RootCause:
    """Return the root cause of an object; one that is gone needs nothing more.

    Objects are read by lists, with the rights of a controller manager.
    """
    view = View(client, clock, _REQUEST_SECONDS, seconds=_SECONDS, by_list=True)
    try:
        item = await view.read(resource, namespace, name)
    except Missing:
        return RootCause(is_healthy=True)
    except Unread as error:
        return RootCause(unread=str(error))
    return root_of(await explain_item(view, item))


def root_of(explanation: Explanation) -> RootCause:
    """Return the root of the worst chain of an explanation."""
    unread = next(iter(explanation.unread), "")
    cause = next(iter(explanation.causes), None)
    if cause is None or cause.state is State.HEALTHY:
        return RootCause(is_healthy=not unread, unread=unread)
    code = _deepest(cause).code
    if unread and code in _SYMPTOMS:
        code = ""
    is_stuck = explanation.state is State.STUCK
    return RootCause(is_stuck=is_stuck, code=code, unread=unread)


def _deepest(cause: Cause) -> Cause:
    while cause.because:
        cause = cause.because[0]
    return cause
