"""A webhook over HTTPS on localhost, which answers as a test wants."""

import base64
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from aiohttp import web

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Response
from controller_manager.serving.certificates import Pair, self_signed
from tests.clusters import Cluster
from tests.devcluster.requests import call, send

MAPS = "/api/v1/namespaces/default/configmaps"
Reply = Callable[[JSON], Any]
"""Returns the response to a request, or a whole answer."""

GROUP = "/apis/admissionregistration.k8s.io/v1"
EVERYTHING: JSON = {
    name: ["*"] for name in ("apiGroups", "apiVersions", "operations", "resources")
}


@cache
def certificate() -> Pair:
    """Return a certificate for localhost, and for a service."""
    return self_signed("webhook", ["127.0.0.1", "localhost", "hook.default.svc"])


def bundle(pair: Pair | None = None) -> str:
    return base64.b64encode((pair or certificate()).certificate).decode()


class WebhookServer:
    """Keeps the requests that it gets, and replies as it is told."""

    def __init__(self) -> None:
        self.requests: list[JSON] = []
        self.reply: Reply = lambda _: {"allowed": True}
        self.port = 0

    def config(self, **changes: Any) -> JSON:
        client = {"url": f"https://127.0.0.1:{self.port}/hook", "caBundle": bundle()}
        return {
            "name": "hook.example.com",
            "clientConfig": client,
            "rules": [{**EVERYTHING, "resources": ["configmaps"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **changes,
        }

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one review."""
        review = await request.json() if request.can_read_body else {"request": {}}
        self.requests.append(review["request"])
        answer = self.reply(review["request"])
        if hasattr(answer, "__await__"):
            answer = await answer
        if isinstance(answer, web.StreamResponse):
            return answer
        if isinstance(answer, dict) and "kind" not in answer:
            head = {"kind": "AdmissionReview", "apiVersion": review["apiVersion"]}
            answer = {**head, "response": {"uid": review["request"]["uid"], **answer}}
        return web.json_response(answer)


@asynccontextmanager
async def webhook_server(
    pair: Pair | None = None, *, is_plain: bool = False
) -> AsyncGenerator[WebhookServer, None]:
    server, application = WebhookServer(), web.Application()
    application.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.01)
    await runner.setup()
    context = None if is_plain else (pair or certificate()).ssl_context()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    server.port = runner.addresses[0][1]
    try:
        yield server
    finally:
        await runner.cleanup()


def patch(*operations: JSON) -> JSON:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


async def configure(cluster: Cluster, plural: str, name: str, *webhooks: JSON) -> None:
    """Create a configuration, "mutating" or "validating"."""
    body = {"metadata": {"name": name}, "webhooks": list(webhooks)}
    await send(cluster, "POST", f"{GROUP}/{plural}webhookconfigurations", body)


def config_map(name: str = "a", **parts: Any) -> JSON:
    return {"metadata": {"name": name}, **parts}


async def post(cluster: Cluster, path: str, body: JSON) -> Response:
    return await call(cluster, "POST", path, body)


def refusal(answer: Response) -> JSON:
    body: JSON = json.loads(answer.body)
    return {k: body[k] for k in ("message", "reason", "code") if k in body}
