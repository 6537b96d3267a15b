"""Attaches volumes to the nodes of their pods (attach_detach_controller.go)."""

from collections.abc import Iterable, Iterator
from typing import Final

from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import NODES, PODS, Node, Pod
from controller_manager.api.core.volumes import (
    PERSISTENT_VOLUMES,
    PersistentVolume,
    claim_key,
)
from controller_manager.api.meta import ObjectMeta, is_deleting, key_of, raw_json
from controller_manager.api.pods import has_stopped
from controller_manager.api.storage import v1 as storage
from controller_manager.client.events.recorder import NORMAL, WARNING
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import DeleteOptions
from controller_manager.control.volumes import StorageOperationMetrics
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.dispatch import Handler
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import Done, Failed, Outcome, SyncError
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Handles, Maps

from . import AttachDetachOptions
from .metrics import AttachDetachMetrics
from .multi_attach import MultiAttachWaiters, multi_attach_error
from .plan import ForcedDetach, NodePlan, VolumePlan, failed, listed, plan_node
from .tracker import PendingAttachments, Tracker
from .view import (
    NodeView,
    NodeViews,
    NodeVolume,
    is_managed,
    is_out_of_service,
    is_ready,
    keeps_volumes_of_ended_pods,
)
from .volumes import Volumes, attachment_name, plugin_name

_SHORTEST_DELAY: Final = 0.001
"""The shortest delay in seconds: a shorter one may be lost by rounding."""

_FAILED: Final = "FailedAttachVolume"
"""The reason of events."""

_ATTACH: Final = "volume_attach"
"""The name of an operation in metrics."""

_ERRORS: Final = (
    *(errors.APIError, errors.InvalidName, errors.ProtocolError),
    *(errors.TransportError, SyncError),
)


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
    workers = 10

    def _of_claim(self, claim: PersistentVolumeClaim) -> Iterable[str]:
        return self._nodes_of_claim(key_of(claim))

    def _of_volume(self, volume: PersistentVolume) -> Iterable[str]:
        return self._nodes_of_claim(claim_key(volume))

    watches = (
        For(NODES, when_changed=_matters),
        Maps(PODS, lambda _, pod: _node_of(pod), on=("add", "delete")),
        Maps(CLAIMS, _of_claim),
        Maps(PERSISTENT_VOLUMES, _of_volume),
        Maps(storage.ATTACHMENTS, lambda _, attachment: (attachment.spec.node_name,)),
        Maps(storage.CSI_DRIVERS, lambda self, _: self.objects.keys()),
        Handles(
            PODS,
            lambda self: Handler(
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
            ),
        ),
    )

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._options = context.config.of(AttachDetachOptions)
        self._volumes = Volumes(context)
        self._pending = PendingAttachments()
        self._views = NodeViews(context, self._volumes, self._pending)
        self._tracker = Tracker()
        self._metrics = context.metrics.of(AttachDetachMetrics)
        self._operations = context.metrics.of(StorageOperationMetrics)
        self._last_in_use: dict[str, frozenset[str]] = {}
        self._waiters = MultiAttachWaiters()

    def _pod_changed(self, old: Pod, new: Pod) -> None:
        is_another = old.metadata.uid != new.metadata.uid
        is_bound = old.spec.node_name != new.spec.node_name
        if is_another or is_bound or has_stopped(old) != has_stopped(new):
            for key in {*_node_of(old), *_node_of(new)}:
                self.queue.add(key)

    def _nodes_of_claim(self, claim: str) -> Iterable[str]:
        names = (pod.spec.node_name for pod in self._volumes.pods_of_claim(claim))
        return dict.fromkeys(filter(None, names))

    def enqueue_all(self) -> Iterator[None]:
        """Add the keys of all nodes, and of deleted nodes that have attachments."""
        yield from super().enqueue_all()
        for attachment in self._views.attachments.all():
            self.queue.add(attachment.spec.node_name)
            yield

    def deleted(self, obj: Node) -> None:
        """Keep the names of the volumes that the node used: it may still be running."""
        name = obj.metadata.name
        if self._views.has_attachments(name):
            self._last_in_use[name] = frozenset(obj.status.volumes_in_use or ())

    def starting(self) -> None:
        """Drop the nodes that lost their attachments before this process led."""
        for name in list(self._last_in_use):
            if not self._views.has_attachments(name):
                del self._last_in_use[name]

    async def reconcile(self, node: Node) -> Outcome:
        """Attach the volumes that pods need on the node; detach the others."""
        self._last_in_use.pop(node.metadata.name, None)
        return await self._sync_node(node.metadata.name)

    async def reconcile_absent(self, key: str) -> Outcome:
        """Detach the volumes of a node that is gone."""
        return await self._sync_node(key)

    async def _sync_node(self, name: str) -> Outcome:
        view = self._views.of(name, self._last_in_use.get(name))
        self._metrics.count(view)
        now = self.clock.monotonic()
        plan = plan_node(view, self._tracker.of(name), now, self._options)
        self._update_pending(view, plan)
        tracked = {key: each.tracked for key, each in plan.volumes.items()}
        self._tracker.replace_all(name, tracked)
        self._waiters.update(view)
        if view.node is None and not view.volumes:
            self._last_in_use.pop(name, None)
        for waiting in self._waiters.to_sync(view):
            self.queue.add(waiting)
        try:
            await self._carry_out(view, plan)
        except Exception as error:  # noqa: BLE001 - the worker reports it
            # What is due now failed, and waits for its backoff.
            return Failed(error, self._requeue_after(plan, name))
        after = self._requeue_after(plan, name)
        return Done(None if after is None else max(after, _SHORTEST_DELAY))

    def _update_pending(self, view: NodeView, plan: NodePlan) -> None:
        """Update the pending attachments, before the sync awaits a request."""
        for unique in self._pending.volumes_of(view.name):
            node_volume = view.volumes[unique]
            is_shown = node_volume.attachment is not None or node_volume.is_listed
            is_known = node_volume.volume is not None or node_volume.attachment_name
            if is_shown or not is_known:
                self._pending.remove(unique, view.name)
        created = (key for key, each in plan.volumes.items() if each.creates)
        for key in (*created, *plan.added):
            volume, attachment = view.volumes[key].volume, view.volumes[key].attachment
            if volume is not None and volume.exclusive and attachment is None:
                self._pending.add(key, view.name)

    def _requeue_after(self, plan: NodePlan, name: str) -> float | None:
        now = self.clock.monotonic()
        times = [
            max(each.not_before - now, _SHORTEST_DELAY)
            for each in self._tracker.of(name).values()
            if each.not_before > now
        ]
        if (planned := plan.requeue_after(now)) is not None:
            times.append(planned)
        return min(times, default=None)

    async def _carry_out(self, view: NodeView, plan: NodePlan) -> None:
        """Write the node's status, then delete attachments, then create attachments.

        One volume that fails does not delay the others; a listed one is not detached.
        Raises the gravest error of a write to repeat. Upstream: rc.reconcile.
        """
        for key, each in plan.volumes.items():
            self._record_events(view, view.volumes[key], each)
        node, failures = None, list[Exception]()
        try:
            node = await self._update_node_status(view, plan)
        except _ERRORS as error:
            failures.append(error)
        is_written = not failures
        for key, each in plan.volumes.items():
            node_volume = view.volumes[key]
            if each.deletes and (is_written or not node_volume.is_listed):
                failures += await self._detach(view, node_volume, each, node)
        for key, each in plan.volumes.items():
            if each.creates:
                await self._create_attachment(view.name, view.volumes[key])
        if failure := errors.gravest(failures):
            raise failure

    def _record_events(
        self, view: NodeView, node_volume: NodeVolume, plan: VolumePlan
    ) -> None:
        volume = node_volume.volume
        if volume is None:
            return
        if plan.failure:
            self._report_failure(view.name, node_volume, plan.failure)
        if plan.reports_multi_attach and node_volume.multi_attach is not None:
            for pod in node_volume.pods:
                message = multi_attach_error(volume, node_volume.multi_attach, pod)
                self.recorder.event(PODS, pod, WARNING, _FAILED, message)
            self.logger.info(
                "Multi-Attach error: volume is attached to another node",
                volumeName=volume.unique_name,
                node=view.name,
                attachedTo=node_volume.multi_attach.nodes,
            )

    async def _update_node_status(self, view: NodeView, plan: NodePlan) -> Node | None:
        """Write the list of attached volumes (node_status_updater.go)."""
        if plan.listed is None or view.node is None:
            return None
        entries = [
            {"devicePath": each.device_path, "name": each.name} for each in plan.listed
        ]
        for key in (*plan.added, *plan.lost):
            is_attached = key not in plan.lost
            await self._check_attachment(view.volumes[key], is_attached=is_attached)
        # The whole list is written: the list of an old cache would restore old entries.
        patch = {"status": {"volumesAttached": entries or None}}
        node = await self.client.patch_exactly(
            NODES, view.node, patch, subresource="status", same_version=True
        )
        for key in plan.added:
            self._report_attached(view, view.volumes[key])
        return node

    async def _check_attachment(
        self, node_volume: NodeVolume, *, is_attached: bool
    ) -> None:
        """Raise SyncError if the stored attachment differs from the cached one.

        A kubelet trusts the list. Upstream also reads attachments (VolumesAreAttached).
        """
        name = node_volume.attachment_name
        if not name:
            return
        try:
            found = await self.client.get(storage.ATTACHMENTS, "", name)
        except errors.NotFound:
            found = None
        stays = found is not None and found.status.attached and not is_deleting(found)
        if stays is not is_attached:
            state = "attached" if stays else "gone or detached"
            msg = f"the volume attachment {name} is {state}; the cache is old"
            raise SyncError(msg)

    def _report_attached(self, view: NodeView, node_volume: NodeVolume) -> None:
        volume, attachment = node_volume.volume, node_volume.attachment
        if volume is None:
            return
        uid = attachment.metadata.uid if attachment is not None else node_volume.key
        tracked = self._tracker.get(view.name, node_volume.key)
        self._tracker.put(view.name, node_volume.key, listed(tracked, uid))
        if tracked.announced == uid:
            return
        message = f'AttachVolume.Attach succeeded for volume "{volume.name}" '
        for pod in node_volume.pods:
            self.recorder.event(PODS, pod, NORMAL, "SuccessfulAttachVolume", message)
        since = tracked.trying_since
        self._operations.observe(
            plugin_name(node_volume.unique_name),
            _ATTACH,
            0.0 if since is None else max(self.clock.monotonic() - since, 0.0),
            migrated=volume.csi is not None and volume.csi.migrated,
        )
        self.logger.v(2).info(
            "Attached volume", volumeName=volume.unique_name, node=view.name
        )

    async def _detach(
        self,
        view: NodeView,
        node_volume: NodeVolume,
        plan: VolumePlan,
        node: Node | None,
    ) -> list[Exception]:
        """Delete an attachment, unless the node reports that it uses the volume.

        The node is read after its status has ceased to list the volume: from then on
        the kubelet does not begin to use it. The cache may also show old conditions and
        taints. Upstream: verifyVolumeIsSafeToDetach.
        """
        began = self.clock.monotonic()
        unique, failures = node_volume.unique_name, list[Exception]()
        try:
            node = node if node is not None else await self._read_node(view.name)
            if node is not None and is_in_use(node, node_volume, plan):
                self.logger.v(2).info(
                    "Volume is still in use", volumeName=node_volume.key, node=view.name
                )
                return []
            await self._delete_attachment(view, node_volume, plan)
        except _ERRORS as error:
            failures.append(error)
        self._operations.observe(
            plugin_name(unique),
            "volume_detach",
            self.clock.monotonic() - began,
            failed=bool(failures),
        )
        return failures

    async def _read_node(self, name: str) -> Node | None:
        try:
            return await self.client.get(NODES, "", name)
        except errors.NotFound:
            return None

    async def _delete_attachment(
        self, view: NodeView, node_volume: NodeVolume, plan: VolumePlan
    ) -> None:
        attachment = node_volume.attachment
        uid = attachment.metadata.uid if attachment is not None else ""
        name = node_volume.attachment_name
        try:
            options = DeleteOptions(uid=uid)
            await self.client.delete(storage.VOLUME_ATTACHMENTS, "", name, options)
        except errors.NotFound:
            pass
        self._tracker.deleted(view.name, node_volume.key, uid)
        if attachment is None:
            self._pending.remove(node_volume.key, view.name)
        if plan.forced is not None:
            self._metrics.forced(plan.forced)
        self.logger.v(2).info(
            "Detached volume",
            volumeName=node_volume.key,
            node=view.name,
            forced=plan.forced.value if plan.forced is not None else "",
        )

    async def _create_attachment(self, node: str, node_volume: NodeVolume) -> None:
        """Create an attachment; a failure counts as a failed attempt to attach."""
        if (body := _new_attachment(node, node_volume)) is None:
            return
        try:
            await self.client.create_for_metadata(storage.VOLUME_ATTACHMENTS, body)
        except errors.AlreadyExists:
            return
        except _ERRORS as error:
            now = self.clock.monotonic()
            tracked = self._tracker.get(node, node_volume.key)
            self._tracker.put(node, node_volume.key, failed(tracked, now))
            self._report_failure(
                node, node_volume, f"kubernetes.io/csi: attacher.Attach failed: {error}"
            )
            if not errors.may_be_applied(error):
                self._pending.remove(node_volume.key, node)
            return
        self.logger.v(2).info("Attaching volume", volumeName=node_volume.key, node=node)

    def _report_failure(self, node: str, node_volume: NodeVolume, failure: str) -> None:
        volume = node_volume.volume
        if volume is None:
            return
        message = f'AttachVolume.Attach failed for volume "{volume.name}" : {failure}'
        for pod in node_volume.pods:
            self.recorder.event(PODS, pod, WARNING, _FAILED, message)
        self._operations.observe(
            plugin_name(node_volume.unique_name),
            _ATTACH,
            0.0,
            failed=True,
            migrated=volume.csi is not None and volume.csi.migrated,
        )
        self.logger.error(
            "Attach failed",
            err=failure,
            volumeName=volume.unique_name,
            node=node,
            pods=[key_of(each) for each in node_volume.pods],
        )


def is_in_use(node: Node, node_volume: NodeVolume, plan: VolumePlan) -> bool:
    """Tell whether a node uses a volume; raise SyncError if its status lists it.

    Volumes are compared by the names of their attachments: an old cache may not have
    the unique name of a volume that the node names.
    """
    listed = [each.name for each in node.status.volumes_attached or ()]
    if found := _name_among(node_volume, node, listed):
        msg = f"the node {key_of(node)} lists {found} again; its cached status is old"
        raise SyncError(msg)
    if not _name_among(node_volume, node, node.status.volumes_in_use or ()):
        return False
    is_given_up = plan.forced is ForcedDetach.TIMEOUT and not is_ready(node)
    return not (is_given_up or is_out_of_service(node))


def _name_among(node_volume: NodeVolume, node: Node, names: Iterable[str]) -> str:
    wanted, on = node_volume.attachment_name, node.metadata.name
    return next((each for each in names if attachment_name(each, on) == wanted), "")


def _new_attachment(
    node: str, node_volume: NodeVolume
) -> storage.VolumeAttachment | None:
    volume = node_volume.volume
    if volume is None or volume.csi is None:
        return None
    if name := volume.persistent_volume:
        source = storage.VolumeAttachmentSource(persistent_volume_name=name)
    else:
        inline = raw_json(volume.csi.as_spec())
        source = storage.VolumeAttachmentSource(inline_volume_spec=inline)
    return storage.VolumeAttachment(
        metadata=ObjectMeta(name=node_volume.attachment_name),
        spec=storage.VolumeAttachmentSpec(
            attacher=volume.csi.driver, source=source, node_name=node
        ),
    )
