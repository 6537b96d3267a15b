"""A cluster on virtual time, in which scenarios bring troubles about."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import yaml

from controller_manager.client.rest.client import Client
from controller_manager.client.rest.request import ServerClock
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.admission import ON_BY_DEFAULT
from controller_manager.devcluster.cli.steps import demo_config
from controller_manager.explain.cause import Explanation
from controller_manager.explain.explainer import explain_all, explain_target
from controller_manager.explain.report import as_text
from controller_manager.explain.target import parse_target
from controller_manager.explain.view import View
from controller_manager.options.config import Config
from controller_manager.registry import registry
from tests.clusters import Cluster, make_config
from tests.explain.scenarios import Applied, Delete, Patch, Step

WIDTH = 80
NAMESPACE = "shop"


class Stage:
    """A cluster with nodes and all controllers, and the namespace "shop"."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    async def send(
        self, method: str, path: str, body: Any = None, **query: str
    ) -> Response:
        kind = "application/json"
        if method == "PATCH":
            kind = "application/apply-patch+yaml" if "force" in query else _MERGE
        request = Request(
            method,
            path,
            query=tuple(query.items()),
            headers={"content-type": kind},
            body=None if body is None else msgspec.json.encode(body),
        )
        answer = await self.cluster.transport.request(request)
        assert answer.status < 300, answer.body.decode()
        return answer

    async def apply(self, manifests: str, manager: str = "kubectl") -> None:
        """Apply the objects of a YAML text, in "shop" unless they name a namespace."""
        for document in yaml.safe_load_all(manifests):
            kind = self.cluster.server.catalogue.of(
                document["apiVersion"], document["kind"]
            )
            assert kind is not None, document
            metadata = document["metadata"]
            root = f"/apis/{kind.group}" if kind.group else "/api"
            place = ""
            if kind.namespaced:
                place = f"/namespaces/{metadata.setdefault('namespace', NAMESPACE)}"
            path = f"{root}/{kind.version}{place}/{kind.plural}/{metadata['name']}"
            await self.send("PATCH", path, document, fieldManager=manager, force="true")

    async def play(self, *steps: Step) -> None:
        for step in steps:
            match step:
                case str():
                    await self.apply(step)
                case Applied(manifests, manager):
                    await self.apply(manifests, manager)
                case Patch(path, body):
                    path = await self._full(path)
                    await self.send("PATCH", path, body, fieldManager="auditor")
                case Delete(path, options):
                    await self.send("DELETE", await self._full(path), options)
                case _:
                    await asyncio.sleep(step)

    async def _full(self, path: str) -> str:
        """Return the path of ``apps/v1 deployments/web``, below the namespace."""
        version, _, rest = path.partition(" ")
        root = f"/api{'s' * ('/' in version)}/{version}"
        if rest.startswith("cluster:"):
            return f"{root}/{rest.removeprefix('cluster:')}"
        full = f"{root}/namespaces/{NAMESPACE}/{rest}"
        if not full.endswith("/*"):
            return full
        found = msgspec.json.decode((await self.send("GET", full[:-2])).body)
        return f"{full[:-1]}{found['items'][0]['metadata']['name']}"

    def _view(self) -> View:
        clock = self.cluster.clock
        server_clock = ServerClock(clock)
        transport = self.cluster.transport
        return View(
            Client(transport, clock, server_clock=server_clock), server_clock, 9
        )

    async def explain(self, *words: str) -> Explanation:
        return await explain_target(self._view(), parse_target(words), NAMESPACE)

    async def explain_all(self) -> Sequence[Explanation]:
        return await explain_all(self._view(), NAMESPACE)

    def text(self, *explanations: Explanation) -> str:
        return as_text(explanations, self.cluster.clock.now(), WIDTH)


_MERGE = "application/merge-patch+json"


def _config(without: str) -> Config:
    ours = make_config(controllers=("*", *([f"-{without}"] if without else [])))
    return replace(
        demo_config(registry()),
        client=ours.client,
        generic=ours.generic,
        serving=ours.serving,
    )


@asynccontextmanager
async def staged(without: str = "") -> AsyncGenerator[Stage, None]:
    cluster = Cluster(admission_plugins=ON_BY_DEFAULT)
    for name in (NAMESPACE, "kube-node-lease"):
        cluster.add_namespace(name)
    async with (
        cluster.nodes(details=True, start_delay=1.0),
        cluster.manager(_config(without)),
    ):
        await asyncio.sleep(5)  # the service accounts are made
        yield Stage(cluster)
