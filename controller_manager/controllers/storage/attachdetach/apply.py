"""Carries out the plan for a node."""

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
    may_be_applied,
)
from controller_manager.client.events import NORMAL, WARNING
from controller_manager.control.storage_operations import StorageOperationMetrics
from controller_manager.controllers.storage.attachdetach import messages
from controller_manager.controllers.storage.attachdetach.decide import (
    Do,
    Reason,
    Step,
    failed,
    listed,
)
from controller_manager.controllers.storage.attachdetach.holds import Holds
from controller_manager.controllers.storage.attachdetach.memories import Memories
from controller_manager.controllers.storage.attachdetach.metrics import (
    AttachDetachMetrics,
)
from controller_manager.controllers.storage.attachdetach.names import (
    attachment_name,
    plugin_name,
)
from controller_manager.controllers.storage.attachdetach.node_state import (
    is_out_of_service,
    is_ready,
)
from controller_manager.controllers.storage.attachdetach.places import NodeView, Place
from controller_manager.controllers.storage.attachdetach.plan import Plan
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import SyncError

_ERRORS: Final = (APIError, InvalidName, ProtocolError, SyncError, TransportError)

_ATTACH: Final = "volume_attach"
_DETACH: Final = "volume_detach"


class Applier:
    """Writes the status of a node first, then attachments: old ones, then new ones.

    One volume that cannot be attached or detached does not delay the others.
    """

    def __init__(
        self, context: ControllerContext, memories: Memories, holds: Holds
    ) -> None:
        """Take the context, what is remembered of places, and the held volumes."""
        self._holds = holds
        self._client = context.client
        self._clock = context.clock
        self._recorder = context.recorder
        self._logger = context.logger
        self._memories = memories
        self._metrics = context.metrics.of(AttachDetachMetrics)
        self._operations = context.metrics.of(StorageOperationMetrics)

    async def apply(self, view: NodeView, plan: Plan) -> None:
        """Carry out a plan; raise the first error of a write that must be repeated.

        What the node still lists is not detached.
        """
        for key, step in plan.steps.items():
            self._tell(view, view.places[key], step)
        node, errors = None, list[Exception]()
        try:
            node = await self._list(view, plan)
        except _ERRORS as error:
            errors.append(error)
        is_written = not errors
        for place, step in plan.to_do(view, Do.DELETE):
            if place.is_listed and not is_written:
                continue
            failure = await self._detach(view, place, step, node)
            errors += [failure] if failure is not None else []
        for place, _ in plan.to_do(view, Do.CREATE):
            await self._create(view.name, place)
        if errors:
            raise errors[0]

    def _tell(self, view: NodeView, place: Place, step: Step) -> None:
        """Record the events of a step that needs no write."""
        volume = place.volume
        if volume is None:
            return
        if step.failure:
            self._fail(view.name, place, step.failure)
        if step.is_refused and place.block is not None:
            for pod in place.pods:
                message = messages.refused(volume, place.block, pod)
                self._recorder.event(PODS, pod, WARNING, messages.FAILED, message)
            self._logger.info(
                "Multi-Attach error: volume is attached to another node",
                volumeName=volume.unique_name,
                node=view.name,
                attachedTo=place.block.nodes,
            )

    async def _list(self, view: NodeView, plan: Plan) -> Node | None:
        """Write what the node lists; return the node as stored, `None` if unwritten."""
        if plan.listed is None or view.node is None:
            return None
        entries = [
            {"devicePath": each.device_path, "name": each.name} for each in plan.listed
        ]
        for key in (*plan.joining, *plan.lost):
            place = view.places[key]
            await self._check_attachment(place, is_attached=key not in plan.lost)
        # The list is written whole: one of an old cache would bring back what is gone.
        known = view.node.metadata
        patch = {
            "metadata": {"uid": known.uid, "resourceVersion": known.resource_version},
            "status": {"volumesAttached": entries or None},
        }
        node = await self._client.patch(
            NODES, "", view.name, patch, subresource="status"
        )
        for key in plan.joining:
            self._joined(view, view.places[key])
        return node

    async def _check_attachment(self, place: Place, *, is_attached: bool) -> None:
        """Raise SyncError if the attachment of a place is not as in the cache.

        A kubelet trusts the list: a volume that is on it is attached, any other is not.
        Upstream reads attachments, too (VolumesAreAttached of the plugin for CSI).
        """
        name = place.attachment_name
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

    def _joined(self, view: NodeView, place: Place) -> None:
        """Report that a volume is attached, once for each attachment."""
        volume, attachment = place.volume, place.attachment
        if volume is None:
            return
        uid = attachment.metadata.uid if attachment is not None else place.key
        memory = self._memories.get(view.name, place.key)
        self._memories.put(view.name, place.key, listed(memory, uid))
        if memory.announced == uid:
            return
        for pod in place.pods:
            message = messages.attached(volume)
            self._recorder.event(PODS, pod, NORMAL, messages.SUCCEEDED, message)
        since = memory.trying_since
        self._operations.observe(
            plugin_name(place.unique_name),
            _ATTACH,
            0.0 if since is None else max(self._clock.monotonic() - since, 0.0),
            migrated=volume.csi is not None and volume.csi.migrated,
        )
        self._logger.v(2).info(
            "Attached volume", volumeName=volume.unique_name, node=view.name
        )

    async def _detach(
        self, view: NodeView, place: Place, step: Step, node: Node | None
    ) -> Exception | None:
        """Delete an attachment, unless the node says that it uses the volume.

        The node is read after it has ceased to list the volume: from then on its
        kubelet does not begin to use it. Whether the node is so ill that it need not
        be asked is read there, too: the cache may be old. Upstream:
        verifyVolumeIsSafeToDetach.
        """
        began = self._clock.monotonic()
        try:
            node = node if node is not None else await self._read_node(view.name)
            if node is not None and must_stay(node, place, step):
                self._logger.v(2).info(
                    "Volume is still in use", volumeName=place.key, node=view.name
                )
                return None
            await self._delete(view, place, step)
        except _ERRORS as error:
            self._observe_detach(place, began, failed=True)
            return error
        self._observe_detach(place, began)
        return None

    async def _read_node(self, name: str) -> Node | None:
        try:
            return await self._client.get(NODES, "", name)
        except NotFound:
            return None

    async def _delete(self, view: NodeView, place: Place, step: Step) -> None:
        attachment = place.attachment
        uid = attachment.metadata.uid if attachment is not None else ""
        name = place.attachment_name
        try:
            options = DeleteOptions(uid=uid)
            await self._client.delete(VOLUME_ATTACHMENTS, "", name, options)
        except NotFound:
            pass
        self._memories.deleted(view.name, place.key, uid)
        if attachment is None:
            self._holds.release(place.key, view.name)
        if step.forced is not None:
            self._metrics.forced(step.forced)
        self._logger.v(2).info(
            "Detached volume",
            volumeName=place.key,
            node=view.name,
            forced=step.forced.value if step.forced is not None else "",
        )

    def _observe_detach(
        self, place: Place, began: float, *, failed: bool = False
    ) -> None:
        seconds = self._clock.monotonic() - began
        plugin = plugin_name(place.unique_name) if place.unique_name else "N/A"
        self._operations.observe(plugin, _DETACH, seconds, failed=failed)

    async def _create(self, node: str, place: Place) -> None:
        """Ask for an attachment; a failure is an attempt that has failed."""
        if (body := _attachment(node, place)) is None:
            return
        try:
            await self._client.create(VOLUME_ATTACHMENTS, body)
        except AlreadyExists:
            return
        except _ERRORS as error:
            now = self._clock.monotonic()
            memory = self._memories.get(node, place.key)
            self._memories.put(node, place.key, failed(memory, now))
            self._fail(
                node, place, f"kubernetes.io/csi: attacher.Attach failed: {error}"
            )
            if not may_be_applied(error):
                self._holds.release(place.key, node)
            return
        self._logger.v(2).info("Attaching volume", volumeName=place.key, node=node)

    def _fail(self, node: str, place: Place, failure: str) -> None:
        """Report an attempt to attach a volume that has failed."""
        volume = place.volume
        if volume is None:
            return
        for pod in place.pods:
            message = messages.not_attached(volume, failure)
            self._recorder.event(PODS, pod, WARNING, messages.FAILED, message)
        self._operations.observe(
            plugin_name(place.unique_name),
            _ATTACH,
            0.0,
            failed=True,
            migrated=volume.csi is not None and volume.csi.migrated,
        )
        self._logger.error(
            "Attach failed",
            err=failure,
            volumeName=volume.unique_name,
            node=node,
            pods=[key_of(each) for each in place.pods],
        )


def must_stay(node: Node, place: Place, step: Step) -> bool:
    """Tell whether a node uses the volume of a place; raise SyncError if it lists it.

    What a node lists is taken off its list before it is detached. Volumes are compared
    by the names of their attachments: an old cache may not know the unique name of a
    volume that the node names.
    """
    listed = [each.name for each in node.status.volumes_attached or ()]
    if found := _of_place(place, node, listed):
        msg = f"the node {key_of(node)} lists {found} again; its cached status is old"
        raise SyncError(msg)
    if not _of_place(place, node, node.status.volumes_in_use or ()):
        return False
    is_given_up = step.forced is Reason.TIMEOUT and not is_ready(node)
    return not (is_given_up or is_out_of_service(node))


def _of_place(place: Place, node: Node, names: Iterable[str]) -> str:
    """Return which of some unique names is that of a place's volume, "" for none."""
    wanted, on = place.attachment_name, node.metadata.name
    return next((each for each in names if attachment_name(each, on) == wanted), "")


def _attachment(node: str, place: Place) -> VolumeAttachment | None:
    """Return the attachment to create for a place."""
    volume = place.volume
    if volume is None or volume.csi is None:
        return None
    if volume.persistent_volume:
        source = VolumeAttachmentSource(persistent_volume_name=volume.persistent_volume)
    else:
        source = VolumeAttachmentSource(
            inline_volume_spec=raw_json(volume.csi.as_spec())
        )
    return VolumeAttachment(
        metadata=ObjectMeta(name=place.attachment_name),
        spec=VolumeAttachmentSpec(
            attacher=volume.csi.driver, source=source, node_name=node
        ),
    )
