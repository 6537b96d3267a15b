"""Patches nodes; the API server refuses a patch if the node has changed."""

from collections.abc import Mapping, Sequence
from typing import Any

from controller_manager.api.core.scheduling import Taint
from controller_manager.api.core.v1 import NODES, Node
from controller_manager.api.meta import resource_version_number
from controller_manager.api.times import format_time
from controller_manager.runtime.context import ControllerContext

from .taints import taints_json


class NodeWriter:
    """Patches nodes, and recognizes caches that do not show the last patch yet.

    All methods that write raise what the client raises: `Conflict` if the cached node
    is old, `NotFound` if it is gone.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._clock = context.server_clock
        self._informer = context.informers.informer(NODES)
        self._written: dict[str, tuple[int, int]] = {}

    def timestamp(self) -> str:
        """Return the API server's time.

        Tolerations count from the time of a taint. With the time of a slow clock, pods
        would be evicted too early.
        """
        return format_time(self._clock.now())

    def is_stale(self, node: Node) -> bool:
        """Tell whether a node, cached or answered, is older than the last write of it.

        A node may be the answer to that write. Then the cache may still be older.
        """
        written, version = self._written.get(node.metadata.name), self._version(node)
        if written is None:
            return False
        if version > written:
            del self._written[node.metadata.name]
        return version < written

    async def read(self, node: Node) -> Node:
        """Return the node as the API server has it."""
        return await self._client.get(NODES, "", node.metadata.name)

    def forget(self, name: str) -> None:
        """Drop the last write of a node that is gone."""
        self._written.pop(name, None)

    async def set_conditions(
        self, node: Node, conditions: Sequence[Mapping[str, Any]]
    ) -> Node:
        """Change conditions in the status, and leave the others."""
        return await self._patch(node, {"status": {"conditions": conditions}}, "status")

    async def set_taints(self, node: Node, taints: Sequence[Taint]) -> Node:
        """Replace all taints."""
        return await self._patch(node, {"spec": {"taints": taints_json(taints)}})

    async def set_taints_and_labels(
        self, node: Node, taints: Sequence[Taint] | None, labels: Mapping[str, str]
    ) -> Node:
        """Replace all taints, unless they are `None`, and set these labels."""
        patch: dict[str, Any] = {}
        if taints is not None:
            patch["spec"] = {"taints": taints_json(taints)}
        if labels:
            patch["metadata"] = {"labels": labels}
        return await self._patch(node, patch)

    async def _patch(
        self, node: Node, patch: Mapping[str, Any], subresource: str = ""
    ) -> Node:
        name = node.metadata.name
        version = {"resourceVersion": node.metadata.resource_version}
        metadata = {**patch.get("metadata", {}), "uid": node.metadata.uid, **version}
        stored = await self._client.patch(
            NODES, "", name, {**patch, "metadata": metadata}, subresource=subresource
        )
        self._written[name] = self._version(stored)
        return stored

    def _version(self, node: Node) -> tuple[int, int]:
        version = resource_version_number(node.metadata.resource_version)
        return self._informer.epoch, version
