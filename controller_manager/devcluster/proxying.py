"""Passes requests on to programs on this machine (apimachinery/pkg/util/proxy)."""

import ssl
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import Final

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.inmemory import StreamingResponse
from controller_manager.devcluster.scheme.statuses import Refusal
from controller_manager.devcluster.webhook.failures import transport_text

_NOT_PASSED: Final = frozenset(
    (
        "authorization",
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
"""Headers of one connection, and the credentials for the API server."""

_AT_ONCE: Final = 64 * 1024


async def proxied(
    request: Request,
    target: URL,
    context: ssl.SSLContext,
    *,
    headers: Iterable[tuple[str, str]] = (),
    prefix: str = "",
    server_name: str | None = None,
) -> Response | StreamingResponse:
    """Return the answer of a program to a request; `target` has the path.

    `context` decides on certificates, which are for `server_name`. `headers` are sent
    besides those of the request. Redirects get `prefix`, the path of the proxy. Raises
    Refusal 503 if the program does not answer.
    """
    sent = CIMultiDict(_passed(request.headers))
    sent.extend([("x-forwarded-uri", request.path), *headers])
    session = _new_session(context)
    try:
        answer = await session.request(
            request.method,
            target,
            data=request.body,
            headers=sent,
            allow_redirects=False,
            server_hostname=server_name,
        )
    except (aiohttp.ClientError, OSError) as error:
        await session.close()
        raise unreachable(transport_text(error)) from None
    except BaseException:
        await session.close()
        raise
    found = _passed(answer.headers)
    if found.get("location", "").startswith("/"):
        found["location"] = prefix + found["location"]
    if request.method == "HEAD":
        await session.close()
        return Response(answer.status, found)
    return _Proxied(session, answer, found)


def _passed(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that are passed on, by lower-case name."""
    lower = {name.lower(): value for name, value in headers.items()}
    return {name: value for name, value in lower.items() if name not in _NOT_PASSED}


def _new_session(context: ssl.SSLContext) -> aiohttp.ClientSession:
    """Return a session for one request, which changes nothing in its answer."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, force_close=True),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
        trust_env=False,
    )


def unreachable(why: str) -> Refusal:
    """Return the refusal of a request whose program cannot be reached."""
    message = f"error trying to reach service: {why}"
    return Refusal(503, "ServiceUnavailable", message)


def unverified() -> ssl.SSLContext:
    """Return TLS settings that trust any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class _Proxied:
    """The answer of a program, passed on piece by piece."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        answer: aiohttp.ClientResponse,
        headers: Mapping[str, str],
    ) -> None:
        self.status = answer.status
        self.headers = headers
        self._session = session
        self._answer = answer

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the body."""
        try:
            async for chunk in self._answer.content.iter_chunked(_AT_ONCE):
                yield chunk
        finally:
            await self.close()

    async def close(self) -> None:
        """End the connection to the program."""
        self._answer.close()
        await self._session.close()
