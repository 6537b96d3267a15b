"""Attaches volumes to the nodes of their pods (attach_detach_controller.go).

The nodes that wait for exclusive volumes of other nodes.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import NODES, PODS, Node, Pod
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.api.meta import key_of
from controller_manager.api.pods import has_stopped
from controller_manager.api.storage.v1 import (
    ATTACHMENTS,
    CSI_DRIVERS,
    Attachment,
    CSIDriver,
)
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import Done, Failed, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps

from .actions import SHORTEST_DELAY, NodeActions, Operation
from .apply import Applier
from .decide import decide_node
from .metrics import AttachDetachMetrics
from .nodes import is_managed, is_out_of_service, is_ready, keeps_volumes_of_ended_pods
from .options import AttachDetachOptions
from .tracker import PendingAttachments, Tracker
from .view import NodeView, NodeViews, NodeVolume
from .volumes import Volumes

_State = tuple[object, ...]


class _Waiters(Struct):
    """The nodes that wait for one volume, and its state when they were last synced."""

    nodes: set[str]
    last_state: _State | None = None


class MultiAttachWaiters:
    """Finds the nodes to sync again after the sync of another node.

    A node that waits for a volume is synced when the other node has lost the volume,
    and when the state of the volume there has changed. It is synced once for each
    state: two nodes that wait for each other do not wake each other without end.
    """

    def __init__(self) -> None:
        """Start without nodes."""
        self._by_holder: dict[str, dict[str, _Waiters]] = {}
        self._holders: dict[str, set[tuple[str, str]]] = {}

    def __len__(self) -> int:
        """Return the number of nodes that have volumes for which others wait."""
        return len(self._by_holder)

    def update(self, view: NodeView) -> None:
        """Note the volumes of other nodes that a node waits for now."""
        name = view.name
        wanted = {
            (holder, each.key)
            for each in view.volumes.values()
            for holder in (each.multi_attach.nodes if each.multi_attach else ())
        }
        for holder, volume in self._holders.pop(name, set()) - wanted:
            self._remove(name, holder, volume)
        for holder, volume in wanted:
            volumes = self._by_holder.setdefault(holder, {})
            volumes.setdefault(volume, _Waiters(set())).nodes.add(name)
        if wanted:
            self._holders[name] = wanted

    def to_sync(self, view: NodeView) -> Iterable[str]:
        """Return the names of the nodes to sync after the sync of this node."""
        return sorted(set(self._to_sync(view)))

    def _to_sync(self, view: NodeView) -> Iterator[str]:
        for volume, waiters in list(self._by_holder.get(view.name, {}).items()):
            node_volume = view.volumes.get(volume)
            state = _state_of(node_volume) if node_volume is not None else ()
            if waiters.last_state != state:
                waiters.last_state = state
                yield from waiters.nodes

    def _remove(self, name: str, holder: str, volume: str) -> None:
        volumes = self._by_holder.get(holder, {})
        if (waiters := volumes.get(volume)) is None:
            return
        waiters.nodes.discard(name)
        if not waiters.nodes:
            del volumes[volume]
        if not volumes:
            self._by_holder.pop(holder, None)


def _state_of(node_volume: NodeVolume) -> _State:
    attachment = node_volume.attachment
    has_pods = node_volume.pods != ()
    if attachment is None:
        return (
            node_volume.is_listed,
            node_volume.in_use,
            node_volume.is_pending,
            has_pods,
        )
    return (
        attachment.metadata.uid,
        attachment.metadata.deletion_timestamp,
        attachment.status.attached,
        *(node_volume.is_listed, node_volume.in_use, has_pods),
    )


_WORKERS = 10


def _matters(old: Node, new: Node) -> bool:
    """Tell whether a change of a node concerns its volumes; a heartbeat does not."""
    before, after = old.status, new.status
    return (
        before.volumes_in_use != after.volumes_in_use
        or before.volumes_attached != after.volumes_attached
        or is_ready(old) != is_ready(new)
        or is_out_of_service(old) != is_out_of_service(new)
        or is_managed(old) != is_managed(new)
        or keeps_volumes_of_ended_pods(old) != keeps_volumes_of_ended_pods(new)
        or old.metadata.uid != new.metadata.uid
    )


def _node_of(pod: Pod) -> Iterable[str]:
    return (pod.spec.node_name,) if pod.spec.node_name and pod.spec.volumes else ()


class AttachDetachReconciler(Reconciler[Node]):
    """Attaches the volumes that the pods of a node need, and detaches the others.

    Each sync reads the desired and the actual state of one node from the caches. The
    process keeps little more than times. A new process reads the same state again.
    """

    queue_name = "attachdetach"
    workers = _WORKERS

    def _of_claim(self, claim: PersistentVolumeClaim) -> Iterable[str]:
        return self._nodes_of_claim(key_of(claim))

    def _of_volume(self, volume: PersistentVolume) -> Iterable[str]:
        reference = volume.spec.claim_ref
        if reference is None:
            return ()
        return self._nodes_of_claim(f"{reference.namespace}/{reference.name}")

    def _of_attachment(self, attachment: Attachment) -> Iterable[str]:
        return (attachment.spec.node_name,)

    def _of_driver(self, _: CSIDriver) -> Iterable[str]:
        return self.objects.keys()

    watches = (
        For(NODES, when_changed=_matters),
        Maps(PODS, lambda _, pod: _node_of(pod), on=("add", "delete")),
        Maps(CLAIMS, _of_claim),
        Maps(PERSISTENT_VOLUMES, _of_volume),
        Maps(ATTACHMENTS, _of_attachment),
        Maps(CSI_DRIVERS, _of_driver),
    )

    def __init__(self, context: ControllerContext) -> None:
        """Take the context; watch the objects that the views read."""
        super().__init__(context)
        self._settings = context.config.of(AttachDetachOptions).settings
        self._volumes = Volumes(context)
        self._pending = PendingAttachments()
        self._views = NodeViews(context, self._volumes, self._pending)
        self._tracker = Tracker()
        self._applier = Applier(context, self._tracker, self._pending)
        self._metrics = context.metrics.of(AttachDetachMetrics)
        self._last_in_use: dict[str, frozenset[str]] = {}
        self._waiters = MultiAttachWaiters()
        context.informers.informer(PODS).add_handler(
            Handler(
                on_update=self._pod_changed,
                depends_on=DependsOn(
                    "metadata.deletionTimestamp",
                    "spec.nodeName",
                    "status.containerStatuses",
                    "status.ephemeralContainerStatuses",
                    "status.initContainerStatuses",
                    "status.phase",
                    reading=("spec.volumes",),
                ),
            )
        )

    def _pod_changed(self, old: Pod, new: Pod) -> None:
        is_another = old.metadata.uid != new.metadata.uid
        is_bound = old.spec.node_name != new.spec.node_name
        if is_another or is_bound or has_stopped(old) != has_stopped(new):
            for key in {*_node_of(old), *_node_of(new)}:
                self.queue.add(key)

    def _nodes_of_claim(self, claim: str) -> Iterable[str]:
        return dict.fromkeys(
            pod.spec.node_name
            for pod in self._volumes.pods_of_claim(claim)
            if pod.spec.node_name
        )

    def enqueue_all(self) -> Iterator[None]:
        """Add the keys of all nodes, and of deleted nodes that have attachments."""
        yield from super().enqueue_all()
        for attachment in self._views.actual.attachments.all():
            self.queue.add(attachment.spec.node_name)
            yield

    def deleted(self, obj: Node) -> None:
        """Keep the names of the volumes that the node used: it may still be running."""
        name = obj.metadata.name
        if self._views.actual.has_attachments(name):
            self._last_in_use[name] = frozenset(obj.status.volumes_in_use or ())

    def starting(self) -> None:
        """Drop the nodes that lost their attachments before this process led."""
        for name in list(self._last_in_use):
            if not self._views.actual.has_attachments(name):
                del self._last_in_use[name]

    async def reconcile(self, node: Node) -> Outcome:
        """Attach the volumes that pods need on the node; detach the others."""
        self._last_in_use.pop(node.metadata.name, None)
        return await self._sync_node(node.metadata.name)

    async def reconcile_absent(self, key: str) -> Outcome:
        """Detach the volumes of a node that is gone."""
        return await self._sync_node(key)

    async def _sync_node(self, name: str) -> Outcome:
        """Decide about the volumes of a node, and carry out the actions."""
        view = self._views.of(name, self._last_in_use.get(name))
        self._metrics.count(view)
        now = self.clock.monotonic()
        actions = decide_node(view, self._tracker.of(name), now, self._settings)
        self._update_pending(view, actions)
        tracked = {key: each.tracked for key, each in actions.by_key.items()}
        self._tracker.replace_all(name, tracked)
        self._waiters.update(view)
        if view.node is None and not view.volumes:
            self._last_in_use.pop(name, None)
        for waiting in self._waiters.to_sync(view):
            self.queue.add(waiting)
        try:
            await self._applier.apply(view, actions)
        except Exception as error:  # noqa: BLE001 - the worker reports it
            # What is due now failed, and waits for its backoff.
            return Failed(error, self._requeue_after(actions, name))
        after = self._requeue_after(actions, name)
        return Done(None if after is None else max(after, SHORTEST_DELAY))

    def _update_pending(self, view: NodeView, actions: NodeActions) -> None:
        """Update the pending attachments, before the sync awaits a request."""
        for unique in self._pending.volumes_of(view.name):
            node_volume = view.volumes[unique]
            is_shown = node_volume.attachment is not None or node_volume.is_listed
            if is_shown or (
                node_volume.volume is None and not node_volume.attachment_name
            ):
                self._pending.remove(unique, view.name)
        created = (
            node_volume.key
            for node_volume, _ in actions.with_operation(view, Operation.CREATE)
        )
        for key in (*created, *actions.added):
            node_volume = view.volumes[key]
            volume = node_volume.volume
            if (
                volume is not None
                and volume.exclusive
                and node_volume.attachment is None
            ):
                self._pending.add(key, view.name)

    def _requeue_after(self, actions: NodeActions, name: str) -> float | None:
        """Return in how many seconds to sync the node again, if nothing changes."""
        now = self.clock.monotonic()
        times = [actions.requeue_after(now)]
        times += [
            max(each.not_before - now, SHORTEST_DELAY)
            for each in self._tracker.of(name).values()
            if each.not_before > now
        ]
        return min((each for each in times if each is not None), default=None)
