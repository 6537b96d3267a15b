"""The operator for widgets, a loop of one's own with kubernetes_asyncio.

Two lists with watches fill two caches, a queue has each key once, workers compare.
"""

import asyncio
import logging
import sys
from collections import Counter
from typing import Any

import aiohttp
import uvloop
from kubernetes_asyncio import client, config, watch
from kubernetes_asyncio.client import ApiException

GROUP, VERSION, PLURAL = "example.com", "v1", "widgets"
LABEL = "example.com/widget"
GONE = 410
WATCH_SECONDS = 240
WORKERS = 10

Key = tuple[str, str]
logger = logging.getLogger(__name__)


class Queue:
    """Has each key once; a key that is added while it is worked on comes again."""

    def __init__(self) -> None:
        self._keys: asyncio.Queue[Key] = asyncio.Queue()
        self._waiting: set[Key] = set()
        self._working: set[Key] = set()
        self._failures: Counter[Key] = Counter()

    def add(self, key: Key) -> None:
        """Add a key, unless it waits already."""
        if key not in self._waiting:
            self._waiting.add(key)
            if key not in self._working:
                self._keys.put_nowait(key)

    async def get(self) -> Key:
        """Take a key to work on."""
        key = await self._keys.get()
        self._waiting.discard(key)
        self._working.add(key)
        return key

    def done(self, key: Key, *, failed: bool) -> None:
        """Give a key back; one that has failed comes again, each time later."""
        self._working.discard(key)
        if key in self._waiting:
            self._keys.put_nowait(key)
        if not failed:
            self._failures.pop(key, None)
            return
        self._failures[key] += 1
        delay = min(60.0, 0.05 * 2 ** self._failures[key])
        asyncio.get_running_loop().call_later(delay, self.add, key)


class Operator:
    """Keeps the config map and the status of each widget."""

    def __init__(self, api: client.ApiClient) -> None:
        self._api = api
        self._core = client.CoreV1Api(api)
        self._custom = client.CustomObjectsApi(api)
        self._queue = Queue()
        self._widgets: dict[Key, Any] = {}
        self._config_maps: dict[Key, Any] = {}

    async def run(self) -> None:
        """Run until cancelled."""
        widgets = (self._custom.list_cluster_custom_object, (GROUP, VERSION, PLURAL))
        maps = (self._core.list_config_map_for_all_namespaces, ())
        listed = [asyncio.Event(), asyncio.Event()]
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(self._widgets, listed[0], *widgets))
            group.create_task(
                self._follow(self._config_maps, listed[1], *maps, label_selector=LABEL)
            )
            for each in listed:
                await each.wait()
            for _ in range(WORKERS):
                group.create_task(self._work())

    async def _follow(
        self,
        cache: dict[Key, Any],
        listed: asyncio.Event,
        call: Any,
        where: tuple[str, ...],
        **selector: str,
    ) -> None:
        """Keep a cache like the API server, and add the key of each change."""
        version = ""
        while True:
            try:
                if not version:
                    answer = await call(*where, **selector)
                    found = self._api.sanitize_for_serialization(answer)
                    version = found["metadata"]["resourceVersion"]
                    items = {key_of(each): each for each in found["items"]}
                    for key in {*items, *cache}:
                        self._queue.add(key)
                    cache.clear()
                    cache.update(items)
                    listed.set()
                async with watch.Watch() as changes:
                    async for event in changes.stream(
                        call,
                        *where,
                        resource_version=version,
                        allow_watch_bookmarks=True,
                        timeout_seconds=WATCH_SECONDS,
                        _request_timeout=WATCH_SECONDS + 30,
                        **selector,
                    ):
                        obj = event["raw_object"]
                        version = obj["metadata"]["resourceVersion"]
                        if event["type"] == "BOOKMARK":
                            continue
                        key = key_of(obj)
                        if event["type"] == "DELETED":
                            cache.pop(key, None)
                        else:
                            cache[key] = obj
                        self._queue.add(key)
            except ApiException as error:
                logger.warning("Watch refused: %s %s", error.status, error.reason)
                version = "" if error.status == GONE else version
                await asyncio.sleep(0 if error.status == GONE else 1)
            except (aiohttp.ClientError, TimeoutError) as error:
                logger.warning("Watch ended: %r", error)
                await asyncio.sleep(0.1)

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            failed = False
            try:
                if (widget := self._widgets.get(key)) is not None:
                    await self._reconcile(key, widget)
            except (ApiException, aiohttp.ClientError, TimeoutError) as error:
                logger.warning("%s failed: %s", key, error)
                failed = True
            self._queue.done(key, failed=failed)

    async def _reconcile(self, key: Key, widget: Any) -> None:
        """Create the config map, or put it right; then write the status."""
        (namespace, name), metadata = key, widget["metadata"]
        if "deletionTimestamp" in metadata:
            return
        spec = widget["spec"]
        data = {"color": spec["color"], "replicas": str(spec["replicas"])}
        found = self._config_maps.get(key)
        if found is None:
            body = config_map_of(widget, data)
            await self._core.create_namespaced_config_map(namespace, body)
        elif found.get("data") != data:
            patch = {"data": data}
            await self._core.patch_namespaced_config_map(name, namespace, patch)
        seen = widget.get("status", {}).get("observedGeneration")
        if seen != metadata["generation"]:
            status = {"observedGeneration": metadata["generation"]}
            where = (GROUP, VERSION, namespace, PLURAL, name)
            await self._custom.replace_namespaced_custom_object_status(
                *where, {**widget, "status": status}
            )


def key_of(obj: Any) -> Key:
    """Return the key of an object."""
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def config_map_of(widget: Any, data: dict[str, str]) -> Any:
    """Return the config map of a widget."""
    name = widget["metadata"]["name"]
    owner = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "Widget",
        "name": name,
        "uid": widget["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata = {"name": name, "labels": {LABEL: name}, "ownerReferences": [owner]}
    return {"metadata": metadata, "data": data}


async def main() -> None:
    """Run with the kubeconfig that KUBECONFIG names."""
    logging.basicConfig(stream=sys.stderr)
    async with await config.new_client_from_config() as api:
        await Operator(api).run()


if __name__ == "__main__":
    uvloop.run(main())
