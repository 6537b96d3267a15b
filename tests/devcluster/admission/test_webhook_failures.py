"""The failure of a webhook has the message of upstream."""

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.core.services import ENDPOINTS
from controller_manager.serving.certificates import self_signed
from tests.clusters import Cluster
from tests.devcluster.admission.webhook_server import (
    MAPS,
    WebhookServer,
    bundle,
    config_map,
    configure,
    patch,
    post,
    refusal,
    webhook_server,
)
from tests.devcluster.requests import send
from tests.devcluster.rows import rows


def _failed(why: str) -> str:
    return f'Internal error occurred: failed calling webhook "hook.example.com": {why}'


@rows("answer", "expected")
async def test_an_answer_of_no_use_is_a_failure(
    cluster: Cluster, hook: WebhookServer, answer: Any, expected: str
) -> None:

    def reply(review: JSON) -> Any:
        if isinstance(answer, int):
            headers = {"Location": "/again"} if answer == 302 else {}
            return web.Response(status=answer, text="oops", headers=headers)
        if isinstance(answer, str):
            return web.Response(text=answer)
        return json.loads(json.dumps(answer).replace("UID", review["uid"]))

    hook.reply = reply
    await configure(cluster, "mutating", "a", hook.config())
    refused = await post(cluster, MAPS, config_map())
    said = json.loads(refused.body)
    url = f"https://127.0.0.1:{hook.port}/hook?timeout=10s"
    uid = hook.requests[0]["uid"]
    message = expected.replace("URL", url).replace("UID", uid)
    assert said == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": _failed(message),
        "reason": "InternalError",
        "details": {"causes": [{"message": _failed(message).partition(": ")[2]}]},
        "code": 500,
    }


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        (
            {"url": "https://127.0.0.1:1/hook"},
            (
                'failed to call webhook: Post "https://127.0.0.1:1/hook?timeout=10s": '
                "dial tcp 127.0.0.1:1: connect: connection refused"
            ),
        ),
        (
            {"caBundle": bundle(self_signed("other", ["127.0.0.1"]))},
            (
                'failed to call webhook: Post "URL": tls: failed to verify '
                "certificate: x509: certificate signed by unknown authority"
            ),
        ),
        (
            {"caBundle": "bm9uZQ=="},
            (
                "could not get REST client: unable to load root certificates: unable "
                "to parse bytes as PEM block"
            ),
        ),
        (
            {"url": None, "service": {"name": "hook", "namespace": "default"}},
            (
                'failed to call webhook: Post "https://hook.default.svc:443/'
                '?timeout=10s": service "hook" not found'
            ),
        ),
    ],
)
async def test_a_webhook_that_cannot_be_reached_is_a_failure(
    cluster: Cluster, hook: WebhookServer, client: JSON, expected: str
) -> None:
    config = hook.config()
    merged = {**config["clientConfig"], **client}
    config["clientConfig"] = {k: v for k, v in merged.items() if v is not None}
    await configure(cluster, "validating", "a", config)
    answer = await post(cluster, MAPS, config_map())
    url = f"https://127.0.0.1:{hook.port}/hook?timeout=10s"
    assert refusal(answer)["message"] == _failed(expected.replace("URL", url))
    ignored = {"webhooks": [{**config, "failurePolicy": "Ignore"}]}
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/a"
    await send(cluster, "PATCH", path, ignored)
    await send(cluster, "POST", MAPS, config_map())


async def test_plain_http_is_a_failure(cluster: Cluster) -> None:
    async with webhook_server(is_plain=True) as server:
        await configure(cluster, "validating", "a", server.config())
        answer = await post(cluster, MAPS, config_map())
    expected = "http: server gave HTTP response to HTTPS client"
    assert refusal(answer)["message"].endswith(expected)


async def test_a_service_leads_to_its_endpoints(
    cluster: Cluster, hook: WebhookServer
) -> None:
    ports = [{"name": "https", "port": 443, "targetPort": 8443}]
    cluster.add("Service", "hook", spec={"ports": ports})
    at = [{"name": "https", "port": hook.port}]
    subsets = [{"addresses": [{"ip": "127.0.0.1"}], "ports": at}]
    # The server refuses addresses of a loopback in Endpoints, as upstream does.
    body = {"metadata": {"name": "hook", "namespace": "default"}, "subsets": subsets}
    cluster.server.objects.put(ENDPOINTS, ("default", "hook"), body)
    service = {"name": "hook", "namespace": "default", "path": "/hook"}
    config = hook.config(clientConfig={"service": service, "caBundle": bundle()})
    await configure(cluster, "validating", "a", config)
    await send(cluster, "POST", MAPS, config_map())
    assert [each["name"] for each in hook.requests] == ["a"]


@rows("operation", "expected")
async def test_a_patch_that_does_not_apply_is_a_failure(
    cluster: Cluster, hook: WebhookServer, operation: JSON, expected: str
) -> None:
    hook.reply = lambda _: patch(operation)
    await configure(cluster, "mutating", "a", hook.config())
    answer = await post(cluster, MAPS, config_map(data={"a": "b"}))
    assert refusal(answer) == {
        "message": expected,
        "reason": "InternalError",
        "code": 500,
    }


@pytest.mark.slow
async def test_a_slow_webhook_fails_in_its_time(
    cluster: Cluster, hook: WebhookServer
) -> None:
    asked, ends = asyncio.Event(), asyncio.Event()

    async def reply(_: JSON) -> JSON:
        asked.set()
        await ends.wait()
        return {"allowed": True}

    hook.reply = reply
    await configure(cluster, "validating", "a", hook.config(timeoutSeconds=1))
    writing = asyncio.create_task(post(cluster, MAPS, config_map()))
    await asked.wait()
    await send(cluster, "POST", "/api/v1/namespaces", {"metadata": {"name": "b"}})
    assert not writing.done()
    answer = await writing
    ends.set()
    url = f"https://127.0.0.1:{hook.port}/hook?timeout=1s"
    assert refusal(answer)["message"] == _failed(
        f'failed to call webhook: Post "{url}": context deadline exceeded'
    )


async def test_an_answer_that_is_too_long_is_a_failure(
    cluster: Cluster, hook: WebhookServer
) -> None:
    """It is not read to its end."""

    async def reply(_: JSON) -> web.StreamResponse:
        return web.Response(body=b"x" * (11 << 20))

    hook.reply = reply
    await configure(cluster, "validating", "a", hook.config())
    answer = await post(cluster, MAPS, config_map())
    assert refusal(answer)["message"] == _failed(
        "failed to call webhook: the answer is longer than 10485760 bytes"
    )
