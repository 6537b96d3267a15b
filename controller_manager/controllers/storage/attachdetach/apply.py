"""Carries out the actions for the volumes of a node.

Upstream: rc.reconcile, statusupdater and the generators of operationexecutor.

The list of attached volumes is written to the status of its node.

Upstream: attachdetach/statusupdater/node_status_updater.go.
"""

from collections.abc import Iterable
from typing import Final

from controller_manager.api.core.v1 import NODES, PODS, Node
from controller_manager.api.meta import ObjectMeta, is_deleting, key_of, raw_json
from controller_manager.api.storage.v1 import (
    ATTACHMENTS,
    VOLUME_ATTACHMENTS,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from controller_manager.client.client import DeleteOptions
from controller_manager.client.errors import (
    AlreadyExists,
    APIError,
    InvalidName,
    NotFound,
    ProtocolError,
    TransportError,
    gravest,
    may_be_applied,
)
from controller_manager.client.events import NORMAL, WARNING
from controller_manager.control.storage_operations import StorageOperationMetrics
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import SyncError

from . import events
from .actions import ForcedDetach, NodeActions, Operation, VolumeAction
from .decide import failed, listed
from .metrics import AttachDetachMetrics
from .names import attachment_name, plugin_name
from .nodes import is_out_of_service, is_ready
from .tracker import PendingAttachments, Tracker
from .view import NodeView, NodeVolume

ATTACH: Final = "volume_attach"
"""The name of an operation in metrics."""


class NodeStatusUpdater:
    """Writes the list, and reports the volumes that it lists for the first time."""

    def __init__(self, context: ControllerContext, tracker: Tracker) -> None:
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._logger = context.logger
        self._tracker = tracker
        self._operations = context.metrics.of(StorageOperationMetrics)

    async def update(self, view: NodeView, actions: NodeActions) -> Node | None:
        """Write the list; return the stored node, `None` without a write."""
        if actions.listed is None or view.node is None:
            return None
        entries = [
            {"devicePath": each.device_path, "name": each.name}
            for each in actions.listed
        ]
        for key in (*actions.added, *actions.lost):
            node_volume = view.volumes[key]
            await self._check_attachment(
                node_volume, is_attached=key not in actions.lost
            )
        # The whole list is written: the list of an old cache would restore old entries.
        known = view.node.metadata
        patch = {
            "metadata": {"uid": known.uid, "resourceVersion": known.resource_version},
            "status": {"volumesAttached": entries or None},
        }
        node = await self._client.patch(
            NODES, "", view.name, patch, subresource="status"
        )
        for key in actions.added:
            self._report_attached(view, view.volumes[key])
        return node

    async def _check_attachment(
        self, node_volume: NodeVolume, *, is_attached: bool
    ) -> None:
        """Raise SyncError if the stored attachment differs from the cached one.

        A kubelet treats the volumes on the list as attached, and all others as
        detached. Upstream also reads attachments (VolumesAreAttached of the CSI
        plugin).
        """
        name = node_volume.attachment_name
        if not name:
            return
        try:
            found = await self._client.get(ATTACHMENTS, "", name)
        except NotFound:
            found = None
        stays = found is not None and found.status.attached and not is_deleting(found)
        if stays is not is_attached:
            state = "attached" if stays else "gone or detached"
            msg = f"the volume attachment {name} is {state}; the cache is old"
            raise SyncError(msg)

    def _report_attached(self, view: NodeView, node_volume: NodeVolume) -> None:
        """Report that a volume is attached, once for each attachment."""
        volume, attachment = node_volume.volume, node_volume.attachment
        if volume is None:
            return
        uid = attachment.metadata.uid if attachment is not None else node_volume.key
        tracked = self._tracker.get(view.name, node_volume.key)
        self._tracker.put(view.name, node_volume.key, listed(tracked, uid))
        if tracked.announced == uid:
            return
        for pod in node_volume.pods:
            message = events.attached(volume)
            self._recorder.event(PODS, pod, NORMAL, events.SUCCEEDED, message)
        since = tracked.trying_since
        self._operations.observe(
            plugin_name(node_volume.unique_name),
            ATTACH,
            0.0 if since is None else max(self._clock.monotonic() - since, 0.0),
            migrated=volume.csi is not None and volume.csi.migrated,
        )
        self._logger.v(2).info(
            "Attached volume", volumeName=volume.unique_name, node=view.name
        )


_ERRORS: Final = (APIError, InvalidName, ProtocolError, SyncError, TransportError)

_DETACH: Final = "volume_detach"


class Applier:
    """Writes the status of a node, then deletes attachments, then creates attachments.

    One volume that cannot be attached or detached does not delay the others.
    """

    def __init__(
        self, context: ControllerContext, tracker: Tracker, pending: PendingAttachments
    ) -> None:
        self._status = NodeStatusUpdater(context, tracker)
        self._pending = pending
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._logger = context.logger
        self._tracker = tracker
        self._metrics = context.metrics.of(AttachDetachMetrics)
        self._operations = context.metrics.of(StorageOperationMetrics)

    async def apply(self, view: NodeView, actions: NodeActions) -> None:
        """Carry out the actions; raise the gravest error of a write to repeat.

        A volume that the node's status still lists is not detached.
        """
        for key, action in actions.by_key.items():
            self._record_events(view, view.volumes[key], action)
        node, errors = None, list[Exception]()
        try:
            node = await self._status.update(view, actions)
        except _ERRORS as error:
            errors.append(error)
        is_written = not errors
        for node_volume, action in actions.with_operation(view, Operation.DELETE):
            if node_volume.is_listed and not is_written:
                continue
            failure = await self._detach(view, node_volume, action, node)
            errors += [failure] if failure is not None else []
        for node_volume, _ in actions.with_operation(view, Operation.CREATE):
            await self._create_attachment(view.name, node_volume)
        if failure := gravest(errors):
            raise failure

    def _record_events(
        self, view: NodeView, node_volume: NodeVolume, action: VolumeAction
    ) -> None:
        """Record the events of an action that needs no write."""
        volume = node_volume.volume
        if volume is None:
            return
        if action.failure:
            self._report_failure(view.name, node_volume, action.failure)
        if action.reports_multi_attach and node_volume.multi_attach is not None:
            for pod in node_volume.pods:
                message = events.multi_attach_error(
                    volume, node_volume.multi_attach, pod
                )
                self._recorder.event(PODS, pod, WARNING, events.FAILED, message)
            self._logger.info(
                "Multi-Attach error: volume is attached to another node",
                volumeName=volume.unique_name,
                node=view.name,
                attachedTo=node_volume.multi_attach.nodes,
            )

    async def _detach(
        self,
        view: NodeView,
        node_volume: NodeVolume,
        action: VolumeAction,
        node: Node | None,
    ) -> Exception | None:
        """Delete an attachment, unless the node reports that it uses the volume.

        The node is read after its status has ceased to list the volume: from then on
        the kubelet does not begin to use the volume. The conditions and taints that
        allow a forced detach are read at the same time, because the cache may be old.
        Upstream: verifyVolumeIsSafeToDetach.
        """
        began = self._clock.monotonic()
        try:
            node = node if node is not None else await self._read_node(view.name)
            if node is not None and is_in_use(node, node_volume, action):
                self._logger.v(2).info(
                    "Volume is still in use", volumeName=node_volume.key, node=view.name
                )
                return None
            await self._delete_attachment(view, node_volume, action)
        except _ERRORS as error:
            self._observe_detach(node_volume, began, failed=True)
            return error
        self._observe_detach(node_volume, began)
        return None

    async def _read_node(self, name: str) -> Node | None:
        try:
            return await self._client.get(NODES, "", name)
        except NotFound:
            return None

    async def _delete_attachment(
        self, view: NodeView, node_volume: NodeVolume, action: VolumeAction
    ) -> None:
        attachment = node_volume.attachment
        uid = attachment.metadata.uid if attachment is not None else ""
        name = node_volume.attachment_name
        try:
            options = DeleteOptions(uid=uid)
            await self._client.delete(VOLUME_ATTACHMENTS, "", name, options)
        except NotFound:
            pass
        self._tracker.deleted(view.name, node_volume.key, uid)
        if attachment is None:
            self._pending.remove(node_volume.key, view.name)
        if action.forced is not None:
            self._metrics.forced(action.forced)
        self._logger.v(2).info(
            "Detached volume",
            volumeName=node_volume.key,
            node=view.name,
            forced=action.forced.value if action.forced is not None else "",
        )

    def _observe_detach(
        self, node_volume: NodeVolume, began: float, *, failed: bool = False
    ) -> None:
        seconds = self._clock.monotonic() - began
        plugin = (
            plugin_name(node_volume.unique_name) if node_volume.unique_name else "N/A"
        )
        self._operations.observe(plugin, _DETACH, seconds, failed=failed)

    async def _create_attachment(self, node: str, node_volume: NodeVolume) -> None:
        """Create an attachment; a failure counts as a failed attempt to attach."""
        if (body := _new_attachment(node, node_volume)) is None:
            return
        try:
            await self._client.create_for_metadata(VOLUME_ATTACHMENTS, body)
        except AlreadyExists:
            return
        except _ERRORS as error:
            now = self._clock.monotonic()
            tracked = self._tracker.get(node, node_volume.key)
            self._tracker.put(node, node_volume.key, failed(tracked, now))
            self._report_failure(
                node, node_volume, f"kubernetes.io/csi: attacher.Attach failed: {error}"
            )
            if not may_be_applied(error):
                self._pending.remove(node_volume.key, node)
            return
        self._logger.v(2).info(
            "Attaching volume", volumeName=node_volume.key, node=node
        )

    def _report_failure(self, node: str, node_volume: NodeVolume, failure: str) -> None:
        """Report a failed attempt to attach a volume."""
        volume = node_volume.volume
        if volume is None:
            return
        for pod in node_volume.pods:
            message = events.not_attached(volume, failure)
            self._recorder.event(PODS, pod, WARNING, events.FAILED, message)
        self._operations.observe(
            plugin_name(node_volume.unique_name),
            ATTACH,
            0.0,
            failed=True,
            migrated=volume.csi is not None and volume.csi.migrated,
        )
        self._logger.error(
            "Attach failed",
            err=failure,
            volumeName=volume.unique_name,
            node=node,
            pods=[key_of(each) for each in node_volume.pods],
        )


def is_in_use(node: Node, node_volume: NodeVolume, action: VolumeAction) -> bool:
    """Tell whether a node uses a volume; raise SyncError if its status lists it.

    A volume is removed from the list before it is detached. Volumes are compared by the
    names of their attachments: an old cache may not have the unique name of a volume
    that the node names.
    """
    listed = [each.name for each in node.status.volumes_attached or ()]
    if found := _name_among(node_volume, node, listed):
        msg = f"the node {key_of(node)} lists {found} again; its cached status is old"
        raise SyncError(msg)
    if not _name_among(node_volume, node, node.status.volumes_in_use or ()):
        return False
    is_given_up = action.forced is ForcedDetach.TIMEOUT and not is_ready(node)
    return not (is_given_up or is_out_of_service(node))


def _name_among(node_volume: NodeVolume, node: Node, names: Iterable[str]) -> str:
    """Return the unique name among `names` that is the volume's, "" for none."""
    wanted, on = node_volume.attachment_name, node.metadata.name
    return next((each for each in names if attachment_name(each, on) == wanted), "")


def _new_attachment(node: str, node_volume: NodeVolume) -> VolumeAttachment | None:
    """Return the attachment to create for a volume."""
    volume = node_volume.volume
    if volume is None or volume.csi is None:
        return None
    if volume.persistent_volume:
        source = VolumeAttachmentSource(persistent_volume_name=volume.persistent_volume)
    else:
        source = VolumeAttachmentSource(
            inline_volume_spec=raw_json(volume.csi.as_spec())
        )
    return VolumeAttachment(
        metadata=ObjectMeta(name=node_volume.attachment_name),
        spec=VolumeAttachmentSpec(
            attacher=volume.csi.driver, source=source, node_name=node
        ),
    )
