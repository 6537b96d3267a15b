"""A write leaves the process in the call that asks the fence, not a turn later.

A turn may be long, and the lease may end in it.
"""

import asyncio
import select
from collections.abc import Callable

import pytest
import uvloop

from controller_manager.client.leadership.fencing import FencedTransport
from controller_manager.client.rest.transport import Request
from controller_manager.serving.certificates import self_signed
from tests.http.servers import Owned
from tests.http.test_attempts import PATH, Server, connected

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


def has_come(server: Server) -> bool:
    """Tell whether bytes wait at the server's end of its connection.

    The server has the same event loop, so it reads nothing while this looks.
    """
    [received] = server.connections
    sock = received.transport.get_extra_info("socket")
    readable, _, _ = select.select([sock.fileno()], [], [], 0.5)
    return bool(readable)


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("loop", LOOPS)
def test_a_write_has_left_when_the_same_turn_goes_on(loop: str, scheme: str) -> None:
    """Some versions of uvloop keep small writes until the end of the turn."""

    async def situation() -> None:
        tls = None
        if scheme == "https":
            tls = self_signed("ca", ["127.0.0.1"]).ssl_context()
        server = Server(tls=tls)
        server.gate.set()
        found: list[bool] = []
        async with connected(server) as transport:
            await transport.request(Request("GET", PATH))
            await asyncio.sleep(0.05)  # TLS tickets of the server are read
            fenced = FencedTransport(transport, Owned())
            writing = asyncio.create_task(
                fenced.request(Request("POST", PATH, body=b"{}"))
            )
            # Runs in the same turn, right after the write.
            asyncio.get_running_loop().call_soon(lambda: found.append(has_come(server)))
            await writing
        assert found == [True]

    run: Callable[[], asyncio.AbstractEventLoop] = LOOPS[loop]
    with asyncio.Runner(loop_factory=run) as runner:
        runner.run(situation())
