"""The HTTPS server of webhooks, with limits for its callers."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from controller_manager.observability.defects import Defects
from controller_manager.observability.logs import Logger
from controller_manager.observability.metrics.manager import ServingCollectors
from controller_manager.serving.answers import leave_out_server
from controller_manager.serving.connection import (
    Connection,
    ConnectionLimits,
    Listener,
    QuietLogger,
)

from .reviews import BadReview, Reviews

_LARGEST: Final = 64 << 20
"""The most bytes of a review. An object has 3 MiB at most, a list has many objects."""

_LONGEST: Final = 30.0
"""Seconds for a review: an API server waits no longer."""


class WebhookCollectors:
    """The metrics of webhooks, with the names that controller-runtime gives them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.panics = Counter(
            "controller_runtime_webhook_panics_total",
            "Unexpected exceptions of the functions of webhooks",
            registry=registry,
        )
        self.requests = Counter(
            "controller_runtime_webhook_requests_total",
            "Requests of API servers by the path of the webhook and the HTTP status",
            ["webhook", "code"],
            registry=registry,
        )
        self.seconds = Histogram(
            "controller_runtime_webhook_latency_seconds",
            "Seconds in which requests of API servers were answered",
            ["webhook"],
            registry=registry,
        )
        self.in_flight = Gauge(
            "controller_runtime_webhook_requests_in_flight",
            "Requests of API servers that are being answered",
            ["webhook"],
            registry=registry,
        )


class WebhookServer:
    """Answers the reviews of API servers until it is closed.

    Its callers are not authenticated. A review tells its sender what the functions say
    of the objects in it, and a function may read others: it is for the network of the
    cluster.
    """

    def __init__(
        self,
        reviews: Reviews,
        metrics: WebhookCollectors,
        defects: Defects,
        logger: Logger,
    ) -> None:
        self._reviews = reviews
        self._metrics = metrics
        self._defects = defects
        self._logger = logger
        self._listener: Listener | None = None
        limits = ConnectionLimits.for_this_process()
        self._limits = replace(limits, body_bytes=_LARGEST)
        app = web.Application(client_max_size=_LARGEST)
        app.on_response_prepare.append(leave_out_server)
        app.add_routes([web.post(each, self._handle) for each in reviews.paths])
        self._runner = web.AppRunner(
            app,
            access_log=None,
            shutdown_timeout=1.0,
            handler_cancellation=True,
            logger=QuietLogger(logger),
        )
        for path in reviews.paths:  # also those that nobody has called yet
            for code in ("200", "500"):
                metrics.requests.labels(path, code)

    async def start(
        self, sock: socket.socket, tls: Callable[[], ssl.SSLContext]
    ) -> None:
        """Serve on a socket that listens; `tls` returns the settings of a connection.

        The caller closes the socket if this is not called.
        """
        await self._runner.setup()
        counters = ServingCollectors(CollectorRegistry())  # those of /metrics are shown
        rest = self._limits, counters, self._logger
        self._listener = Listener(sock, tls, self._connection, *rest)

    @property
    def is_serving(self) -> bool:
        """True once it serves."""
        return self._listener is not None

    def _connection(self) -> Connection:
        server = self._runner.server
        assert server is not None  # noqa: S101 - set up before anything is accepted
        return Connection(server, self._limits, self._logger)

    async def close(self) -> None:
        """Stop listening and close all connections."""
        if self._listener is not None:
            await self._listener.close()
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.Response:
        if isinstance(request.protocol, Connection):
            request.protocol.begin()
            request.protocol.admit()
        path = request.path
        with (
            self._metrics.in_flight.labels(path).track_inprogress(),
            self._metrics.seconds.labels(path).time(),
        ):
            answer = await self._answer(request, path)
        self._metrics.requests.labels(path, str(answer.status)).inc()
        return answer

    async def _answer(self, request: web.Request, path: str) -> web.Response:
        seconds = _seconds(request.query.get("timeout", ""))
        try:
            async with asyncio.timeout(seconds):
                body = await request.read()
                answer = await self._reviews.answer(path, body, seconds)
        except BadReview as error:
            return web.Response(status=400, text=f"{error}\n")
        except web.HTTPRequestEntityTooLarge:
            return web.Response(status=413, text=f"more than {_LARGEST} bytes\n")
        except TimeoutError:
            return web.Response(status=504, text=f"not done in {seconds:g} s\n")
        except Exception as error:  # noqa: BLE001 - logged and counted
            self._defects.report("webhooks", error, path)
            return web.Response(status=500, text=f"{type(error).__name__}\n")
        return web.Response(body=answer, content_type="application/json")


def _seconds(timeout: str) -> float:
    """Return the time that an API server says it waits, such as ``10s``."""
    number = timeout.removesuffix("s")
    return min(float(number), _LONGEST) if number.isdecimal() else _LONGEST
