"""The answer about one object as text, for programs that have a transport."""

from controller_manager.client.client import Client
from controller_manager.client.server_clock import ServerClock
from controller_manager.client.transport import Transport
from controller_manager.clock import Clock

from .explainer import explain_target
from .report import as_text
from .target import TargetError, parse_target
from .view import Unread, View

_REQUEST_SECONDS = 10.0
_SECONDS = 60.0


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
