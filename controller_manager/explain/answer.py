"""The answer about one object, for other packages: as text, or as one code to count."""

from typing import Final

from controller_manager.api.meta import AnyResource
from controller_manager.client.rest.client import Client
from controller_manager.client.rest.request import ServerClock
from controller_manager.client.rest.transport import Transport
from controller_manager.clock import Clock
from controller_manager.runtime.registry import RootCause

from .cause import Cause, Explanation, State
from .explainer import explain_item, explain_target
from .report import as_text
from .target import TargetError, parse_target
from .view import Missing, Unread, View

_REQUEST_SECONDS: Final = 10.0
_SECONDS: Final = 60.0
"""The time of an explanation. When rollouts are counted, the others of the same minute
must have theirs."""

_COUNTING_REQUEST_SECONDS: Final = 5.0

_SYMPTOMS: Final = frozenset(
    ("DeadlinePassed", "NodesWithoutPod", "PodsMissing", "RolloutWaits")
)
"""Codes that are a root only if the objects that show the cause are unread."""


async def answer(
    transport: Transport, clock: Clock, namespace: str, target: str, width: int
) -> str:
    """Return the answer about a target, ``KIND/NAME``, as the command prints it.

    A target that cannot be explained is one line with the reason.
    """
    server_clock = ServerClock(clock)
    client = Client(transport, clock, server_clock=server_clock)
    view = View(client, server_clock, _REQUEST_SECONDS, seconds=_SECONDS)
    try:
        explanation = await explain_target(view, parse_target((target,)), namespace)
    except (TargetError, Unread) as error:
        return f"{error}\n"
    return as_text([explanation], server_clock.now(), width)


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
    view = View(
        client, clock, _COUNTING_REQUEST_SECONDS, seconds=_SECONDS, by_list=True
    )
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
