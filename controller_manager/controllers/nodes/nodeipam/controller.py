"""Gives nodes their ranges (pkg/controller/nodeipam, ipam/range_allocator.go)."""

import asyncio
from typing import Final, NoReturn

from controller_manager.api.core.v1 import NODES, Node
from controller_manager.api.meta import is_deleting, metadata_of
from controller_manager.client.events.recorder import NORMAL
from controller_manager.client.rest import errors
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome, Requeue, SyncError
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For
from controller_manager.runtime.worker import Workers

from . import NodeIPAMOptions, ranges

_ERRORS: Final = (errors.APIError, errors.TransportError, errors.ProtocolError)
_RETRY: Final = 1.0
"""Seconds until the nodes are listed again, or a key is reconciled again."""


def _may_need_ranges(old: Node, new: Node) -> bool:
    """Tell whether a node has other ranges or another uid; False for a heartbeat."""
    is_same = old.metadata.uid == new.metadata.uid
    return not is_same or old.spec.pod_cidrs != new.spec.pod_cidrs


class NodeIPAMReconciler(Reconciler[Node]):
    """Gives each node a range of addresses of each family, once and for all.

    Before the first write, all nodes are read from the API server: a cache may not show
    the ranges that a former manager has given away. A failed write may be carried out
    yet, so a node keeps the range that was reserved for it until the node is gone.
    """

    watches = (For(NODES, when_changed=_may_need_ranges),)
    queue_name = "cidrallocator_node"
    workers = 30

    def __init__(self, context: ControllerContext) -> None:
        """Read the flags; raises InvalidConfiguration, which names one of them."""
        super().__init__(context)
        config = context.config
        settings = ranges.read_settings(config.pod_ranges, config.of(NodeIPAMOptions))
        for text in settings.unread:
            self.logger.warning(
                "Ignored an entry that is not a range of addresses",
                flag="--service-cluster-ip-range",
                entry=text,
            )
        self._metrics = context.metrics.of(ranges.NodeIPAMMetrics)
        self._allocator = ranges.RangeAllocator(settings, self._metrics)
        self._waiting: dict[str, None] = {}
        """The names of the nodes that wait for a free range, the first one first."""
        self._reported: dict[str, str] = {}
        """The uids of the nodes whose invalid ranges were reported, by name."""

    def make_workers(self) -> Workers:
        """Return the workers; they start after all nodes were read."""
        start, ready = self.enqueue_all, self._list_nodes
        return self.context.workers(
            self.queue, self._sync, self.workers, on_start=start, ready=ready
        )

    async def reconcile(self, node: Node) -> Outcome:
        """Store the node's ranges, or give it ranges if it has none."""
        name, uid = node.metadata.name, node.metadata.uid
        assigned = self._allocator.ranges_of(name)
        if assigned is not None and assigned.uid != uid:
            # The cache may be older than the node that was read from the API server.
            live = await self._read(name)
            if live is None or live.metadata.uid != uid:
                return Requeue(_RETRY, "the cache shows a former node of that name")
            assigned = self._allocator.ranges_of(name)
        needs_ranges = not _texts_of(node) and not is_deleting(node)
        if needs_ranges:
            assigned = assigned or self._allocator.reserve(name, uid)
            assigned = assigned or self._report_exhausted(node)
        else:
            self._store_ranges(node)
        # Wake the next waiting node before the write into this node.
        self._waiting.pop(name, None)
        self._wake()
        if needs_ranges and assigned is not None:
            await self._assign(node, assigned)
        return DONE

    async def reconcile_absent(self, key: str) -> Outcome:
        """Free the ranges of a deleted node that the cache has never shown."""
        if self._allocator.ranges_of(key) is None:
            return DONE
        if await self._read(key) is not None:
            return Requeue(_RETRY, "the cache does not show the node yet")
        self._wake()
        return DONE

    def starting(self) -> None:
        """Show that this process gives nodes their ranges."""
        self._metrics.started()

    def deleted(self, obj: Node) -> None:
        """Free the ranges of a node that is gone."""
        name = obj.metadata.name
        assigned = self._allocator.ranges_of(name)
        if assigned is not None and assigned.uid == obj.metadata.uid:
            self._allocator.release(name)
            self._wake()

    def forget(self, key: str) -> None:
        """Drop the state of a node that is gone."""
        self._reported.pop(key, None)
        if self._waiting.pop(key, "") is None:
            self._wake()

    async def _list_nodes(self) -> None:
        while True:
            try:
                async for page in self.client.list_all(NODES):
                    for node in page.items:
                        self._store_ranges(node)
                break
            except _ERRORS as error:
                self.logger.warning("Nodes not listed, trying again", err=str(error))
            await asyncio.sleep(_RETRY)
        for name in self._allocator.names:
            if self.objects.by_key(name) is None:
                self.queue.add(name)

    def _store_ranges(self, node: Node) -> None:
        """Store the ranges that a node has; report invalid ones, once."""
        metadata = node.metadata
        texts = _texts_of(node)
        if not texts:
            return
        networks, wrong = [], []
        for text in texts:
            try:
                networks.append(ranges.parse_network(text))
            except ValueError:
                wrong.append(text)
        wrong += [str(each) for each in networks if self._allocator.is_outside(each)]
        self._report(node, "Ranges of a node are outside of --cluster-cidr", wrong)
        assigned = ranges.NodeRanges(metadata.uid, tuple(networks))
        if self._allocator.hold(metadata.name, assigned):
            self._report(node, "Ranges of a node are in use elsewhere, too", texts)

    def _report(self, node: Node, message: str, texts: list[str]) -> None:
        name, uid = node.metadata.name, node.metadata.uid
        if texts and self._reported.get(name) != uid:
            self._reported[name] = uid
            self.logger.warning(message, node=name, podCIDRs=",".join(texts))

    def _report_exhausted(self, node: Node) -> NoReturn:
        name = node.metadata.name
        self._waiting.setdefault(name)
        self._event(node, "CIDRNotAvailable")
        msg = f"no range of --cluster-cidr is left for the node {name}"
        raise SyncError(msg)

    def _wake(self) -> None:
        if self._waiting and not self._allocator.is_exhausted:
            self.queue.add(next(iter(self._waiting)))

    async def _assign(self, node: Node, assigned: ranges.NodeRanges) -> None:
        """Write the ranges into the node; after a failure they stay reserved for it."""
        metadata = node.metadata
        texts = [str(each) for each in assigned.ranges]
        patch = {"spec": {"podCIDR": texts[0], "podCIDRs": texts}}
        try:
            await self.client.patch_exactly(metadata_of(NODES), node, patch)
        except (errors.NotFound, errors.Conflict, errors.Invalid) as error:
            # The node is gone or another one, or another client gave it a range.
            live = await self._read(metadata.name)
            if live is None or live.metadata.uid != metadata.uid or _texts_of(live):
                return
            self._event(node, "CIDRAssignmentFailed")
            raise SyncError(str(error)) from error
        except errors.APIError:
            self._event(node, "CIDRAssignmentFailed")
            raise

    async def _read(self, name: str) -> Node | None:
        """Read a node from the API server; store its ranges, or free them if gone."""
        try:
            live = await self.client.get(NODES, "", name)
        except errors.NotFound:
            self._allocator.release(name)
            return None
        assigned = self._allocator.ranges_of(name)
        if assigned is not None and assigned.uid != live.metadata.uid:
            self._allocator.release(name)
        self._store_ranges(live)
        return live

    def _event(self, node: Node, status: str) -> None:
        message = f"Node {node.metadata.name} status is now: {status}"
        self.recorder.event(NODES, node, NORMAL, status, message)


def _texts_of(node: Node) -> list[str]:
    return list(node.spec.pod_cidrs or filter(None, (node.spec.pod_cidr,)))
