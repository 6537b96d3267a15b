"""The volumes of one node, read from the caches.

All of them are found by indexes: a view costs time for the pods and the attachments of
one node, and for the other nodes of the volumes that they share.
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.core.v1 import AttachedVolume, Node, Pod
from controller_manager.api.meta import is_deleting
from controller_manager.api.storage.v1 import Attachment
from controller_manager.runtime.context import ControllerContext

from .actual_state import ActualState, listed_on
from .desired_state import DesiredState, DesiredVolumes
from .names import attachment_name, is_known
from .nodes import is_managed, is_out_of_service, is_ready
from .tracker import PendingAttachments
from .volumes import BY_UNIQUE_NAME, Volume, Volumes


class MultiAttach(Struct, frozen=True):
    """The other nodes that have an exclusive volume, so that it cannot be attached.

    `pods` use the volume there. `stays` says that those nodes will not release the
    volume at once; then users are told.
    """

    nodes: tuple[str, ...]
    pods: tuple[Pod, ...] = ()
    stays: bool = False


class NodeVolume(Struct, frozen=True, kw_only=True):
    """One volume on one node, attached there or needed there.

    - `key`: the unique name of the volume; the name of the attachment if the caches do
      not have the persistent volume.
    - `unique_name`: "" if the caches do not have the persistent volume.
    - `attachment_name`: "" if no CSI driver attaches the volume.
    - `volume`, `pods`: the volume and the pods that need it on this node; `None` and
      empty if no pod needs it.
    - `is_listed`: the node's status lists the volume as attached.
    - `in_use`: the node reports that it uses the volume, or has no report.
    - `is_kept`: a pod may use the volume, so its attachment is not changed.
    - `is_pending`: the volume may be attached although the caches do not show that.
    - `multi_attach`: the other nodes that have the volume, if it is exclusive.
    """

    key: str
    unique_name: str = ""
    attachment_name: str = ""
    volume: Volume | None = None
    pods: tuple[Pod, ...] = ()
    attachment: Attachment | None = None
    is_listed: bool = False
    in_use: bool = False
    is_kept: bool = False
    is_pending: bool = False
    multi_attach: MultiAttach | None = None


class NodeView(Struct, frozen=True, kw_only=True):
    """A node, `None` if it is gone, and its volumes by their keys.

    `used_by_pods` are the unique names of the volumes of all its pods, also of ended
    pods.
    """

    name: str
    node: Node | None = None
    is_ready: bool = False
    is_out_of_service: bool = False
    volumes: Mapping[str, NodeVolume] = {}
    used_by_pods: tuple[str, ...] = ()

    @property
    def listed(self) -> tuple[AttachedVolume, ...]:
        """The volumes that the node's status lists as attached."""
        return (self.node.status.volumes_attached if self.node else None) or ()


class NodeViews:
    """Makes views of nodes."""

    def __init__(
        self, context: ControllerContext, volumes: Volumes, pending: PendingAttachments
    ) -> None:
        """Take the context; watch pods, nodes and attachments."""
        self._volumes = volumes
        self._pending = pending
        self._desired = DesiredState(context, volumes)
        self.actual = ActualState(context, volumes)

    def of(self, name: str, last_in_use: frozenset[str] | None) -> NodeView:
        """Return the view of a node.

        `last_in_use` are the volumes that a deleted node used, `None` if this process
        did not see the node.
        """
        node = self.actual.nodes.by_key(name)
        desired = self._desired.of(name, node)
        in_use = last_in_use
        if node is not None:
            in_use = frozenset(node.status.volumes_in_use or ())
        volumes = self._node_volumes(name, node, desired, in_use)
        return NodeView(
            name=name,
            node=node,
            is_ready=node is not None and is_ready(node),
            is_out_of_service=node is not None and is_out_of_service(node),
            volumes={each.key: each for each in volumes},
            used_by_pods=desired.used,
        )

    def _node_volumes(
        self,
        name: str,
        node: Node | None,
        desired: DesiredVolumes,
        in_use: frozenset[str] | None,
    ) -> Iterator[NodeVolume]:
        """Yield the volumes of a node; `in_use` are the used ones, `None` if unknown.

        The volumes that the node lists come in its order: the same state has the same
        writes in the same order.
        """
        names = listed_on(node) if node is not None else ()
        listed = dict.fromkeys(each for each in names if is_known(each))
        pending = sorted(self._pending.volumes_of(name))
        named = dict.fromkeys((*desired.volumes, *listed, *(in_use or ()), *pending))
        found: dict[str, Attachment] = {}
        for unique, attachment in self.actual.attachments_on(name, named):
            if unique:
                found[unique] = attachment
            else:
                yield _without_volume(attachment, desired)
        managed = node is not None and is_managed(node)
        for unique in dict.fromkeys((*desired.volumes, *listed, *pending, *found)):
            volume, users = desired.volumes.get(unique, (None, ()))
            here = found.get(unique)
            node_volume = NodeVolume(
                key=unique,
                unique_name=unique,
                attachment_name=attachment_name(unique, name),
                attachment=here,
                is_listed=unique in listed,
                in_use=in_use is None or unique in in_use,
                is_pending=unique in pending,
            )
            if volume is None or not managed:
                kept = volume is not None or self._is_kept(node_volume, desired)
                yield replace(node_volume, is_kept=kept)
            else:
                others = self._multi_attach(volume, node_volume, name)
                yield replace(
                    node_volume, volume=volume, pods=users, multi_attach=others
                )

    def _is_kept(self, node_volume: NodeVolume, desired: DesiredVolumes) -> bool:
        """Tell whether the volume may be an unresolved volume of a pod."""
        if not desired.unresolved:
            return False
        unique, attachment = node_volume.unique_name, node_volume.attachment
        volumes = list(self._volumes.persistent.by_index(BY_UNIQUE_NAME, unique))
        source = attachment.spec.source.persistent_volume_name if attachment else None
        if source is not None:
            named = self._volumes.persistent.by_key(source)
            volumes += [named] if named is not None else []
        return not volumes or any(map(desired.may_include, volumes))

    def _multi_attach(
        self, volume: Volume, node_volume: NodeVolume, node: str
    ) -> MultiAttach | None:
        """Return the other nodes that have an exclusive volume, `None` if none has."""
        is_here = node_volume.attachment is not None or node_volume.is_listed
        if is_here or not volume.exclusive:
            return None
        unique = volume.unique_name
        pending = self._pending.node_of(unique)
        others = {each: False for each in (pending,) if each not in {"", node}}
        for other in self.actual.nodes_that_list(unique):
            if other != node:
                others[other] = True
        for attachment in self.actual.attachments_of(unique):
            other = attachment.spec.node_name
            if other != node:
                is_firm = attachment.status.attached and not is_deleting(attachment)
                others[other] = others.get(other, False) or is_firm
        if not others:
            return None
        attached = sorted(other for other, is_firm in others.items() if is_firm)
        pods = tuple(pod for other in attached for pod in self._users(unique, other))
        stays = bool(pods) or any(self._may_use(each, unique) for each in attached)
        return MultiAttach(tuple(sorted(others)), pods, stays)

    def _users(self, unique: str, name: str) -> tuple[Pod, ...]:
        """Return the pods of another node that use a volume there."""
        desired = self._desired.of(name, self.actual.nodes.by_key(name))
        return desired.volumes[unique][1] if unique in desired.volumes else ()

    def _may_use(self, name: str, unique: str) -> bool:
        """Tell whether another node reports that it uses a volume, or is gone."""
        node = self.actual.nodes.by_key(name)
        in_use = node.status.volumes_in_use if node is not None else None
        return node is None or unique in (in_use or ())


def _without_volume(attachment: Attachment, desired: DesiredVolumes) -> NodeVolume:
    """Return the node's volume for an attachment whose persistent volume is gone.

    According to the caches, the node does not use it: the names of all volumes that the
    node uses were compared with its name. The caches may be old, so the node is read
    before the volume is detached.
    """
    name = attachment.metadata.name
    return NodeVolume(
        key=name,
        attachment_name=name,
        attachment=attachment,
        is_kept=bool(desired.unresolved),
    )
