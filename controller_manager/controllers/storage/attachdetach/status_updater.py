"""Writes the list of attached volumes to the status of a node.

Upstream: attachdetach/statusupdater/node_status_updater.go.
"""

from typing import Final

from controller_manager.api.core.v1 import NODES, PODS, Node
from controller_manager.api.meta import is_deleting
from controller_manager.api.storage.v1 import ATTACHMENTS
from controller_manager.client.errors import NotFound
from controller_manager.client.events import NORMAL
from controller_manager.control.storage_operations import StorageOperationMetrics
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import SyncError

from . import events
from .actions import NodeActions
from .decide import listed
from .names import plugin_name
from .tracker import Tracker
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
