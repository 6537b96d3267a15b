"""A scenario's requests to the API, and the objects of its namespace."""

import json
from http import HTTPStatus
from typing import Any, Final

from controller_manager.client.transport import Request, Transport
from tests.conformance.paths import is_cluster_scoped, path_of

JSON = dict[str, Any]

PATCH_TYPES: Final = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}


class Access:
    """Sends a scenario's requests; it owns cluster-scoped objects by their name."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self._transport = transport
        self._namespace = namespace

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "",
        *,
        missing_ok: bool = False,
    ) -> JSON:
        headers = {"accept": "application/json"}
        encoded = None
        if body is not None:
            encoded = json.dumps(body).encode()
            headers["content-type"] = content_type or "application/json"
        path, _, query = path.partition("?")
        pairs = tuple(
            (name, value)
            for name, _, value in (each.partition("=") for each in query.split("&"))
            if name
        )
        answer = await self._transport.request(
            Request(method, path, query=pairs, headers=headers, body=encoded)
        )
        if not missing_ok or answer.status != HTTPStatus.NOT_FOUND:
            assert answer.status < 400, f"{method} {path}: {answer.body.decode()}"
        decoded: JSON = json.loads(answer.body)
        return decoded

    def path(self, kind: str, name: str = "", subresource: str = "") -> str:
        return path_of(kind, self._namespace, name, subresource)

    async def items(self, kind: str) -> list[JSON]:
        if kind == "Namespace":
            found = await self.call("GET", "/api/v1/namespaces")
            return [
                each
                for each in found["items"]
                if each["metadata"]["name"] == self._namespace
            ]
        items: list[JSON] = (await self.call("GET", self.path(kind)))["items"]
        if is_cluster_scoped(kind):
            return [
                each
                for each in items
                if each["metadata"]["name"].startswith(self._namespace)
            ]
        return items
