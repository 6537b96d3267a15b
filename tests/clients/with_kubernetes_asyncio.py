"""kubernetes_asyncio: its dynamic client, and a typed one for nodes."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any

import kubernetes_asyncio as library
from kubernetes_asyncio.dynamic.exceptions import DynamicApiError

from tests.clients.client import APPLY, CONTENT_TYPES, JSON, NODE, Kind


class WithKubernetesAsyncio:
    """Does what the scenarios say, one call after the other."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self._runner = asyncio.Runner()
        self._run(self._connect())

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(coroutine)

    async def _connect(self) -> None:
        await library.config.load_kube_config()
        self._api = library.client.ApiClient()
        self._dynamic = await library.dynamic.DynamicClient(self._api)

    def version(self) -> str:
        async def version() -> Any:
            return await library.client.VersionApi(self._api).get_code()

        return str(self._run(version()).git_version)

    async def _resource(self, kind: Kind) -> Any:
        return await self._dynamic.resources.get(api_version=kind[0], kind=kind[1])

    async def _of(self, obj: JSON) -> Any:
        return await self._resource(Kind((obj["apiVersion"], obj["kind"])))

    def create(self, obj: JSON) -> JSON:
        async def create() -> Any:
            namespace = obj["metadata"].get("namespace")
            return await (await self._of(obj)).create(obj, namespace=namespace)

        body: JSON = self._run(create()).to_dict()
        return body

    def get(self, kind: Kind, name: str) -> JSON:
        async def get() -> Any:
            resource = await self._resource(kind)
            return await resource.get(name=name, namespace=self.namespace)

        body: JSON = self._run(get()).to_dict()
        return body

    def replace(self, obj: JSON) -> JSON:
        async def replace() -> Any:
            namespace = obj["metadata"].get("namespace")
            return await (await self._of(obj)).replace(obj, namespace=namespace)

        body: JSON = self._run(replace()).to_dict()
        return body

    def patch(
        self, kind: Kind, name: str, how: str, patch: Any, subresource: str = ""
    ) -> JSON:
        async def send() -> Any:
            resource = await self._resource(kind)
            if subresource:
                resource = resource.subresources[subresource]
            more = {"field_manager": "tests", "force": True} if how == APPLY else {}
            return await resource.patch(
                body=patch,
                name=name,
                namespace=self.namespace,
                content_type=CONTENT_TYPES[how],
                **more,
            )

        body: JSON = self._run(send()).to_dict()
        return body

    def scale(self, kind: Kind, name: str, replicas: int) -> int:
        async def scale() -> Any:
            resource = (await self._resource(kind)).subresources["scale"]
            where = {"name": name, "namespace": self.namespace}
            body = (await resource.get(**where)).to_dict()
            body["spec"]["replicas"] = replicas
            return await resource.replace(body=body, **where)

        return int(self._run(scale()).spec.replicas)

    def select(self, kind: Kind, labels: str = "", fields: str = "") -> list[JSON]:
        async def nodes() -> list[JSON]:
            found = await library.client.CoreV1Api(self._api).list_node()
            return [self._api.sanitize_for_serialization(each) for each in found.items]

        async def select() -> list[JSON]:
            resource = await self._resource(kind)
            found = await resource.get(
                namespace=self.namespace, label_selector=labels, field_selector=fields
            )
            return [each.to_dict() for each in found.items]

        objects: list[JSON] = self._run(nodes() if kind == NODE else select())
        return objects

    def pages(self, kind: Kind, limit: int) -> list[str]:
        async def pages() -> list[str]:
            resource, found, more = await self._resource(kind), [], {"limit": limit}
            while True:
                page = await resource.get(namespace=self.namespace, **more)
                assert len(page.items) <= limit
                found += [each.metadata.name for each in page.items]
                token = page.metadata["continue"]
                if not token:
                    return found
                more["_continue"] = token

        names: list[str] = self._run(pages())
        return names

    def watch(self, kind: Kind, version: str, count: int) -> list[tuple[str, str]]:
        async def watch() -> list[tuple[str, str]]:
            found = []
            resource = await self._resource(kind)
            events = resource.watch(
                namespace=self.namespace, resource_version=version, timeout=10
            )
            async with aclosing(events):
                async for event in events:
                    found.append((event["type"], event["object"].metadata.name))
                    if len(found) == count:
                        break
            return found

        found: list[tuple[str, str]] = self._run(watch())
        return found

    def delete(self, kind: Kind, name: str) -> None:
        async def delete() -> None:
            resource = await self._resource(kind)
            await resource.delete(name=name, namespace=self.namespace)

        self._run(delete())

    def delete_all(self, kind: Kind) -> None:
        async def delete() -> None:
            resource = await self._resource(kind)
            await resource.delete(namespace=self.namespace, label_selector="!none")

        self._run(delete())

    def refusal(self, call: Callable[[], Any]) -> tuple[int, str]:
        try:
            answer = call()
        except DynamicApiError as error:
            return error.status, json.loads(error.body or "")["reason"]
        except library.client.ApiException as error:
            return error.status, str(error.reason).partition(":")[0]
        # Its dynamic client raises nothing: it returns the Status as the object.
        return answer.get("code", 0), answer.get("reason", "not refused")

    def close(self) -> None:
        self._run(self._api.close())
        self._runner.close()


def connect(namespace: str) -> WithKubernetesAsyncio:
    """Return the client."""
    return WithKubernetesAsyncio(namespace)
