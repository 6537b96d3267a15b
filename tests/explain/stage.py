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
from controller_manager.devcluster.admission.plugins import ON_BY_DEFAULT
from controller_manager.devcluster.cli.steps import demo_config
from controller_manager.explain.cause import Explanation
from controller_manager.explain.explainer import explain_all, explain_target
from controller_manager.explain.report import as_text
from controller_manager.explain.target import parse_target
from controller_manager.explain.view import View
from controller_manager.options.config import Config
from controller_manager.registry import registry
from tests.clusters import Cluster, make_config

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

    async def patch(self, path: str, body: Any) -> None:
        """Merge a patch into the object of a path below the namespace "shop"."""
        await self.send("PATCH", _full(path), body, fieldManager="auditor")

    async def delete(self, path: str, body: Any = None) -> None:
        """Delete the object of a path below the namespace "shop"."""
        await self.send("DELETE", _full(path), body)

    def names(self, group: str, plural: str) -> list[str]:
        """Return the names of all objects of a resource in the namespace."""
        kind = self.cluster.server.catalogue.find(group, "v1", plural)
        assert kind is not None
        stored = self.cluster.server.storage.collection(kind.resource)
        found = [each.obj["metadata"] for each in stored]
        return [each["name"] for each in found if each["namespace"] == NAMESPACE]

    async def pass_time(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

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
        """Return the explanations of all objects that are not healthy."""
        return await explain_all(self._view(), NAMESPACE)

    def text(self, *explanations: Explanation) -> str:
        """Return explanations as the command prints them."""
        return as_text(explanations, self.cluster.clock.now(), WIDTH)


_MERGE = "application/merge-patch+json"


def _full(path: str) -> str:
    """Return the path of ``apps/v1 deployments/web``, below the namespace "shop"."""
    version, _, rest = path.partition(" ")
    root = "/apis" if "/" in version else "/api"
    if rest.startswith("cluster:"):
        return f"{root}/{version}/{rest.removeprefix('cluster:')}"
    return f"{root}/{version}/namespaces/{NAMESPACE}/{rest}"


def _config(**flags: str) -> Config:
    ours = make_config(controllers=("*", *_off(flags)))
    return replace(
        demo_config(registry()),
        client=ours.client,
        generic=ours.generic,
        serving=ours.serving,
    )


def _off(flags: dict[str, str]) -> Sequence[str]:
    without = flags.get("without", "")
    return [f"-{each}" for each in without.split(",") if each]


@asynccontextmanager
async def staged(without: str = "") -> AsyncGenerator[Stage, None]:
    """Run a cluster while entered; `without` names controllers that do not run."""
    cluster = Cluster(admission_plugins=ON_BY_DEFAULT)
    for name in (NAMESPACE, "kube-node-lease"):
        cluster.add_namespace(name)
    async with (
        cluster.nodes(details=True, start_delay=1.0),
        cluster.manager(_config(without=without)),
    ):
        await asyncio.sleep(5)  # the service accounts are made
        yield Stage(cluster)
