"""Requests that need a container: each refusal says what to do instead."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from controller_manager.client.rest.transport import Request
from controller_manager.devcluster.kubelet.server import CONNECTIONS
from controller_manager.devcluster.proxying import HOW
from controller_manager.devcluster.registry import find_kinds, find_storages
from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import CORE, PODS, create_pod
from tests.devcluster.requests import call, send

NOTHING_RUNS = "the development cluster runs no containers"
GUIDE = "/devcluster/guide"
EXEC = (
    f'{NOTHING_RUNS}: nothing can be executed in pod "p", and no file copied, unless '
    'the annotation devcluster/exec has an answer to ""; annotations say what its '
    f"containers do: https://127.0.0.1:0{GUIDE}, kubectl get --raw {GUIDE}"
)
ATTACH = (
    f'{NOTHING_RUNS}: there is nothing to attach to in pod "p"; kubectl logs -f shows '
    "what the annotation devcluster/logs says"
)
FORWARD = f'{NOTHING_RUNS}: no port of pod "p" can be forwarded; {HOW}'
POD_PROXY = f'{NOTHING_RUNS}: nothing listens in pod "p"; {HOW}'
SERVICE_PROXY = f'{NOTHING_RUNS}: nothing listens behind service "s"; {HOW}'
SERVICES = f"{CORE}/namespaces/default/services"
READS = ("GET", "POST")
ALL = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


async def refusals(
    cluster: Cluster, methods: Sequence[str], path: str
) -> list[tuple[int, str]]:
    """Return the status and the message of each answer."""
    path, _, query = path.partition("?")
    given = tuple(tuple(each.split("=")) for each in query.split("&") if each)
    answers = []
    for method in methods:
        headers = {"content-type": "application/merge-patch+json"}
        request = Request(method, path, given, headers, b"{}")  # type: ignore[arg-type]
        answer = await cluster.transport.request(request)
        answers.append((answer.status, json.loads(answer.body)["message"]))
    return answers


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("path", "methods", "message"),
    [
        (f"{PODS}/p/exec", READS, EXEC),
        (f"{PODS}/p/attach", READS, ATTACH),
        (f"{PODS}/p/portforward", READS, FORWARD),
        (f"{PODS}/p/proxy", ALL, POD_PROXY),
        (f"{PODS}/p/proxy/", ALL, POD_PROXY),
        (f"{PODS}/p:80/proxy/a/b", ALL, POD_PROXY),
        (f"{PODS}/https:p:/proxy/a/b", ALL, POD_PROXY),
        (f"{SERVICES}/s/proxy", ALL, SERVICE_PROXY),
        (f"{SERVICES}/http:s:web/proxy/healthz", ALL, SERVICE_PROXY),
    ],
)
async def test_nothing_connects_to_a_container(
    cluster: Cluster, path: str, methods: tuple[str, ...], message: str
) -> None:
    async with cluster.nodes(count=1):
        await create_pod(cluster, "p")
        spec = {"ports": [{"port": 80}]}
        service = {"metadata": {"name": "s"}, "spec": spec}
        await send(cluster, "POST", SERVICES, service)
        await asyncio.sleep(0.1)
        found = await refusals(cluster, methods, path)
    assert found == [(501, message)] * len(methods)


@pytest.mark.looptime
async def test_the_guide_names_the_annotations(cluster: Cluster) -> None:
    async with cluster.nodes(count=1):
        answer = await call(cluster, "GET", GUIDE)
        refused = await call(cluster, "POST", GUIDE)
    text = answer.body.decode()
    assert (answer.status, refused.status) == (200, 405)
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    assert text.startswith("## Simulated nodes\n")
    assert text.count("\n## ") == 0
    for name in ("exit-code", "run-seconds", "failing-readiness", "logs"):
        assert f"devcluster/{name}" in text


def test_each_subresource_is_served_or_refused_with_a_message() -> None:
    connects = {each.resource: each.connect for each in find_storages()}
    answered: set[Any] = {("pods", "log"), ("nodes", "proxy"), *CONNECTIONS}
    silent = [
        f"{kind.resource}/{part.name}"
        for kind in find_kinds()
        for part in kind.subresources
        if not part.replace
        and part.name not in ("status", "scale")
        and part.name not in connects.get(kind.resource, {})
        and (kind.resource, part.name) not in answered
        and not part.refusal
    ]
    assert silent == []
