"""Runs simple commands in containers, for ``kubectl exec`` over a websocket.

The protocol is that of client-go/transport/websocket: the first byte of a message is
its channel, and the channel of errors has a Status at the end.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.inmemory import StreamingResponse
from controller_manager.devcluster.kinds.core.pod.strategy import KIND as POD
from controller_manager.devcluster.server.http.negotiation import header
from controller_manager.devcluster.server.http.request_info import Target
from controller_manager.devcluster.server.registry.objects import Objects

from .annotations import FOREVER
from .commands import Run
from .pod_connections import check_node, chosen_container

_PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_OUTPUT: Final = b"\x01"
_ERROR: Final = b"\x03"
_UNKNOWN_OUTPUT: Final = re.compile(r"\b(?:cat|date|hostname|ls|printf)\b")
"""Commands that would print what no container here has."""

Execute = Callable[[JSON, str, Sequence[str]], Run | None]
"""Runs a command in a container of a pod; `None` for an unknown command."""

Refuse = Callable[[Target, Request], Awaitable[Response]]


class PodExec:
    """Answers requests to execute a command in a container."""

    def __init__(self, objects: Objects, execute: Execute, refuse: Refuse) -> None:
        """Take the function that refuses commands that cannot be run here."""
        self._objects = objects
        self._execute = execute
        self._refuse = refuse

    async def answer(
        self, target: Target, request: Request
    ) -> Response | StreamingResponse:
        """Return the output of a command; raises Refusal if it cannot be run."""
        pod = self._objects.find(POD, target.namespace, target.name).obj
        container = chosen_container(pod, dict(request.query).get("container", ""))
        check_node(self._objects, pod, "pod {name} does not have a host assigned")
        command = [value for name, value in request.query if name == "command"]
        offered = header(request.headers, "sec-websocket-protocol").split(",")
        protocols = [each for each in _PROTOCOLS if each in map(str.strip, offered)]
        run = None
        if command and protocols and not _UNKNOWN_OUTPUT.search(" ".join(command)):
            run = self._execute(pod, container["name"], command)
        if run is None or run.seconds == FOREVER:
            return await self._refuse(target, request)
        return _Output(run, protocols[0])


class _Output:
    """The messages of a command: its lines, each at its time, and its end."""

    status: int = 101

    def __init__(self, run: Run, protocol: str) -> None:
        self._run = run
        self.headers: Mapping[str, str] = {"sec-websocket-protocol": protocol}

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the messages."""
        passed = 0.0
        for after, line in self._run.lines:
            await asyncio.sleep(after - passed)
            passed = after
            yield _OUTPUT + f"{line}\n".encode()
        await asyncio.sleep(self._run.seconds - passed)
        yield _ERROR + msgspec.json.encode(_status(self._run.code))

    async def close(self) -> None:
        """Send no more; there is nothing to end."""


def _status(code: int) -> JSON:
    """Return the Status of a command that ended with a code."""
    if not code:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": "command terminated with non-zero exit code: error executing "
        f"command, exit code {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
