"""The heartbeats of the nodes: their leases and their statuses."""

import asyncio
from collections.abc import Callable
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_micro_time
from controller_manager.devcluster.csi.driver import csi_node, node_annotations
from controller_manager.devcluster.kinds.coordination.lease import KIND as LEASE
from controller_manager.devcluster.kinds.core.namespace import KIND as NAMESPACE
from controller_manager.devcluster.kinds.core.node import KIND as NODE
from controller_manager.devcluster.kinds.storage.csinode import KIND as CSI_NODE
from controller_manager.devcluster.scheme.statuses import Refusal
from controller_manager.devcluster.server.registry.objects import Objects

from .node_status import is_due, is_stopped, new_node, node_name, node_status

NODE_LEASES: Final = "kube-node-lease"

_PERIOD: Final = 10.0
"""Seconds between two renewals of a lease, and two checks of the status."""

_TURNS: Final = 19
"""Thousands of nodes at once would keep the API server busy for too long."""

_PAUSE: Final = 0.5
"""Seconds between two turns."""

_DURATION: Final = 40
"""Seconds for which a lease holds, as a kubelet writes them."""


class Heartbeats:
    """Registers nodes, renews their leases, and reports their status.

    A stopped kubelet does neither. A deleted node stays deleted, as on a real cluster
    until its kubelet starts again.
    """

    def __init__(
        self, objects: Objects, count: int, relieve: Callable[[str], None]
    ) -> None:
        """Take the objects of the API server, and the number of nodes.

        `relieve` is called for each node that works, once in a period.
        """
        self._relieve = relieve
        self._objects = objects
        self._clock = objects.clock
        self._numbers = {node_name(number): number for number in range(count)}

    def register(self) -> None:
        """Create the nodes and their CSINodes."""
        for name in self._numbers:
            if not self._objects.has(NODE, "", name):
                self._objects.create(NODE, "", new_node(name))
            self._register_driver(name)
            self._report_status(name)

    async def run(self) -> None:
        """Renew and report until cancelled; the nodes take turns within a period."""
        names = list(self._numbers)
        for name in names:
            self.beat(name)
        turns = min(len(names), _TURNS)
        while True:
            for turn in range(turns):
                await asyncio.sleep(_PAUSE)
                for name in names[turn::turns]:
                    self.beat(name)
            await asyncio.sleep(_PERIOD - turns * _PAUSE)

    def beat(self, name: str) -> None:
        """Send one heartbeat of a node, unless it is stopped, deleted or unknown."""
        if name not in self._numbers or not self._objects.has(NODE, "", name):
            return
        if is_stopped(self._objects.find(NODE, "", name).obj):
            return
        self._register_driver(name)
        self._report_status(name)
        self._relieve(name)
        try:
            self._renew(name)
        except Refusal:
            return  # the namespace ends, or a quota is full: try again next time

    def _register_driver(self, name: str) -> None:
        """Create the CSINode, unless it exists."""
        if self._objects.has(CSI_NODE, "", name):
            return
        node = self._objects.find(NODE, "", name).obj
        metadata = node["metadata"]
        annotations = {**metadata.get("annotations", {}), **node_annotations(name)}
        new = {**node, "metadata": {**metadata, "annotations": annotations}}
        self._objects.update(NODE, "", name, new)
        self._objects.create(CSI_NODE, "", csi_node(node))

    def _report_status(self, name: str) -> None:
        node = self._objects.find(NODE, "", name).obj
        now = self._clock.now()
        status = node_status(node, self._numbers[name], now)
        if is_due(node, status, now):
            new = {"metadata": node["metadata"], "status": status}
            self._objects.update(NODE, "", name, new, "status")

    def _renew(self, name: str) -> None:
        if not self._objects.has(NAMESPACE, "", NODE_LEASES):
            return  # an API server creates it soon
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": _DURATION,
            "renewTime": format_micro_time(self._clock.now()),
        }
        if self._objects.has(LEASE, NODE_LEASES, name):
            stored = self._objects.find(LEASE, NODE_LEASES, name).obj
            renewed = {**stored, "spec": {**stored["spec"], **spec}}
            self._objects.update(LEASE, NODE_LEASES, name, renewed)
        else:
            metadata = {"name": name, "ownerReferences": [self._owner(name)]}
            lease = {"metadata": metadata, "spec": spec}
            self._objects.create(LEASE, NODE_LEASES, lease)

    def _owner(self, name: str) -> JSON:
        """Return the owner of a lease: its node."""
        uid = self._objects.find(NODE, "", name).obj["metadata"]["uid"]
        return {
            "apiVersion": NODE.api_version,
            "kind": NODE.kind,
            "name": name,
            "uid": uid,
        }
