"""Attaches volumes to the nodes of their pods (attach_detach_controller.go)."""

from collections.abc import Iterable, Iterator

from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import NODES, PODS, Node, Pod
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.api.meta import key_of
from controller_manager.api.storage.v1 import (
    ATTACHMENTS,
    CSI_DRIVERS,
    Attachment,
    CSIDriver,
)
from controller_manager.controllers.storage.attachdetach.apply import Applier
from controller_manager.controllers.storage.attachdetach.decide import Do, Rules
from controller_manager.controllers.storage.attachdetach.holds import Holds
from controller_manager.controllers.storage.attachdetach.memories import Memories
from controller_manager.controllers.storage.attachdetach.metrics import (
    AttachDetachMetrics,
)
from controller_manager.controllers.storage.attachdetach.node_state import (
    is_managed,
    is_out_of_service,
    is_ready,
    keeps_volumes_of_ended_pods,
)
from controller_manager.controllers.storage.attachdetach.options import (
    AttachDetachOptions,
)
from controller_manager.controllers.storage.attachdetach.places import NodeView
from controller_manager.controllers.storage.attachdetach.plan import SOON, Plan, plan
from controller_manager.controllers.storage.attachdetach.view import Views
from controller_manager.controllers.storage.attachdetach.volumes import (
    Volumes,
    is_ended,
)
from controller_manager.controllers.storage.attachdetach.waits import Waits
from controller_manager.informers.informer import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import Done, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps

_WORKERS = 10


def _matters(old: Node, new: Node) -> bool:
    """Tell whether a change of a node concerns its volumes; heartbeats do not."""
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
    """Brings the attachments of one node at a time in line with its pods.

    Which volumes are to be attached, and which are, is read from the caches in each
    sync; only times are remembered. After a restart everything is found again.
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
        """Take the context, and watch what the views read."""
        super().__init__(context)
        options = context.config.of(AttachDetachOptions)
        verifies = not options.disable_reconcile_sync
        self._rules = Rules(
            verify_after=options.reconcile_sync_period if verifies else None,
            forces=not options.disable_force_detach,
        )
        self._volumes = Volumes(context)
        self._holds = Holds()
        self._views = Views(context, self._volumes, self._holds)
        self._memories = Memories()
        self._applier = Applier(context, self._memories, self._holds)
        self._metrics = context.metrics.of(AttachDetachMetrics)
        self._last_in_use: dict[str, frozenset[str]] = {}
        self._waits = Waits()
        context.informers.informer(PODS).add_handler(
            Handler(on_update=self._pod_changed)
        )

    def _pod_changed(self, old: Pod, new: Pod) -> None:
        is_another = old.metadata.uid != new.metadata.uid
        is_bound = old.spec.node_name != new.spec.node_name
        if is_another or is_bound or is_ended(old) != is_ended(new):
            for key in {*_node_of(old), *_node_of(new)}:
                self.queue.add(key)

    def _nodes_of_claim(self, claim: str) -> Iterable[str]:
        return dict.fromkeys(
            pod.spec.node_name
            for pod in self._volumes.pods_of_claim(claim)
            if pod.spec.node_name
        )

    def enqueue_all(self) -> Iterator[None]:
        """Add the keys of all nodes, and of those that are gone and have volumes."""
        yield from super().enqueue_all()
        for attachment in self._views.attachments.all():
            self.queue.add(attachment.spec.node_name)
            yield

    def deleted(self, obj: Node) -> None:
        """Remember what the node used: it may still be running."""
        name = obj.metadata.name
        if self._views.has_attachments(name):
            self._last_in_use[name] = frozenset(obj.status.volumes_in_use or ())

    def starting(self) -> None:
        """Forget the nodes that lost their attachments before this process led."""
        for name in list(self._last_in_use):
            if not self._views.has_attachments(name):
                del self._last_in_use[name]

    async def reconcile(self, node: Node) -> Outcome:
        """Attach the volumes that pods want on the node, detach the others."""
        self._last_in_use.pop(node.metadata.name, None)
        return await self._sync_node(node.metadata.name)

    async def reconcile_absent(self, key: str) -> Outcome:
        """Detach the volumes of a node that is gone."""
        return await self._sync_node(key)

    async def _sync_node(self, name: str) -> Outcome:
        """Decide on what the caches show now, and carry it out."""
        view = self._views.of(name, self._last_in_use.get(name))
        self._metrics.saw(view)
        now = self.clock.monotonic()
        decided = plan(view, self._memories.of(name), now, self._rules)
        self._hold(view, decided)
        self._memories.decided(name, decided)
        self._waits.update(view)
        if view.node is None and not view.places:
            self._last_in_use.pop(name, None)
        for waiting in self._waits.to_wake(view):
            self.queue.add(waiting)
        await self._applier.apply(view, decided)
        return Done(self._requeue_after(decided, name))

    def _hold(self, view: NodeView, decided: Plan) -> None:
        """Take and end holds, before anything is awaited."""
        for unique in self._holds.of(view.name):
            place = view.places[unique]
            is_shown = place.attachment is not None or place.is_listed
            if is_shown or (place.volume is None and not place.attachment_name):
                self._holds.release(unique, view.name)
        created = (place.key for place, _ in decided.to_do(view, Do.CREATE))
        for key in (*created, *decided.joining):
            place = view.places[key]
            volume = place.volume
            if volume is not None and volume.exclusive and place.attachment is None:
                self._holds.take(key, view.name)

    def _requeue_after(self, decided: Plan, name: str) -> float | None:
        """Return in how many seconds to sync the node again, if nothing changes."""
        now = self.clock.monotonic()
        times = [decided.requeue_after(now)]
        times += [
            max(each.not_before - now, SOON)
            for each in self._memories.of(name).values()
            if each.not_before > now
        ]
        return min((each for each in times if each is not None), default=None)
