"""The server answers clients that want to resume a TLS session."""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from tests.serving.servers import Authority, closed, serving, trusting

REQUEST = b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
VERSIONS = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


def status_of(
    port: int, context: ssl.SSLContext, session: ssl.SSLSession | None
) -> tuple[int, bool, ssl.SSLSession | None]:
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, session=session) as wrapped,
    ):
        wrapped.sendall(REQUEST)
        answer = b"".join(iter(lambda: wrapped.recv(65536), b""))
        status = int(answer.split()[1])
        session, reused = wrapped.session, bool(wrapped.session_reused)
        # A server forgets the session of a connection that ends without this.
        wrapped.unwrap()
        return status, reused, session


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_client_that_offers_an_old_session_is_recognised(
    tmp_path: Path, version: ssl.TLSVersion
) -> None:
    """By a full handshake, since a resumed session has no verified chain."""
    authority = Authority(tmp_path, "ca")
    context = trusting(pair=authority.issue("admin", "admin", "system:masters"))
    context.minimum_version = context.maximum_version = version
    async with serving(closed(authority)) as url:
        port = int(url.rpartition(":")[2])
        session, answers = None, []
        for _ in range(3):
            status, reused, session = await asyncio.to_thread(
                status_of, port, context, session
            )
            answers.append((status, reused))
    assert answers == [(200, False)] * 3
