"""An operator written with kubernetes_asyncio: namespaces get the settings of teams.

Each namespace with the label ``example.com/team`` has a config map ``team`` with the
name of the team. A list and a watch bring the namespaces; what fails is tried again.
"""

import asyncio
import logging
import sys
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client import ApiException, V1ConfigMap, V1ObjectMeta

LABEL = "example.com/team"
NAME = "team"
CONFLICT, NOT_FOUND, GONE, TOO_MANY = 409, 404, 410, 429

logger = logging.getLogger(__name__)


class TeamOperator:
    """Keeps the config maps of the labelled namespaces, until it is cancelled."""

    def __init__(self, api: client.ApiClient, pause: float = 1.0) -> None:
        """Take the connection, and the seconds to wait after an error."""
        self._core = client.CoreV1Api(api)
        self._pause = pause

    async def run(self) -> None:
        """List and watch the namespaces, again and again."""
        while True:
            try:
                async for namespace in self._labelled():
                    await self._keep(namespace.metadata)
            except ApiException as error:
                logger.warning("Request failed: %s %s", error.status, error.reason)
                if error.status != GONE:
                    await asyncio.sleep(self._seconds_to_wait(error))
            except (aiohttp.ClientError, TimeoutError) as error:
                logger.warning("Connection failed: %r", error)
                await asyncio.sleep(self._pause)

    def _seconds_to_wait(self, error: ApiException) -> float:
        """Return the server's Retry-After, or our own pause."""
        if error.status == TOO_MANY and error.headers:
            return float(error.headers.get("Retry-After", self._pause))
        return self._pause

    async def _labelled(self) -> AsyncIterator[Any]:
        """Yield each labelled namespace, now and whenever it changes."""
        found = await self._core.list_namespace(label_selector=LABEL)
        for namespace in found.items:
            yield namespace
        async with watch.Watch() as changes:
            async for event in changes.stream(
                self._core.list_namespace,
                label_selector=LABEL,
                resource_version=found.metadata.resource_version,
            ):
                if event["type"] in ("ADDED", "MODIFIED"):
                    yield event["object"]

    async def _keep(self, namespace: V1ObjectMeta) -> None:
        """Create the config map of a namespace, or repair it.

        A conflict means that somebody else has written it meanwhile: read it again.
        """
        data = {"team": namespace.labels[LABEL]}
        if namespace.deletion_timestamp:
            return
        while True:
            try:
                found = await self._core.read_namespaced_config_map(
                    NAME, namespace.name
                )
            except ApiException as error:
                if error.status != NOT_FOUND:
                    raise
                body = V1ConfigMap(metadata=V1ObjectMeta(name=NAME), data=data)
                await self._core.create_namespaced_config_map(namespace.name, body)
                return
            if found.data == data:
                return
            found.data = data
            try:
                await self._core.replace_namespaced_config_map(
                    NAME, namespace.name, found
                )
            except ApiException as error:
                if error.status != CONFLICT:
                    raise
            else:
                return


async def main() -> None:
    """Run with the kubeconfig that KUBECONFIG names."""
    logging.basicConfig(stream=sys.stderr)
    async with await config.new_client_from_config() as api:
        await TeamOperator(api).run()


if __name__ == "__main__":
    asyncio.run(main())
