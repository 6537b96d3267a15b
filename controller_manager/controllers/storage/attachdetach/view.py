"""The volumes of one node, read from the caches: those that pods need, and the others.

All are found by indexes. Upstream has maps of all nodes:
cache/desired_state_of_world.go and cache/actual_state_of_world.go.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.core.v1 import NODES, PODS, AttachedVolume, Node, Pod
from controller_manager.api.core.volumes import PersistentVolume, claim_key
from controller_manager.api.meta import is_deleting, key_of, true_condition
from controller_manager.api.pods import has_stopped
from controller_manager.api.storage.v1 import ATTACHMENTS, Attachment
from controller_manager.control.pod_indexes import PODS_BY_NODE
from controller_manager.informers.store import Index
from controller_manager.runtime.context import ControllerContext

from .tracker import PendingAttachments
from .volumes import (
    BY_UNIQUE_NAME,
    Unresolved,
    Volume,
    Volumes,
    attachment_name,
    csi_name,
    is_attachment_name,
    is_known,
    volume_of,
)

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""The taint by which a user declares that nothing runs on a node any more."""


def is_managed(node: Node) -> bool:
    """Tell whether the kubelet leaves attaching to this controller."""
    annotations = node.metadata.annotations
    return annotations is not None and annotations.managed_attach_detach is not None


def keeps_volumes_of_ended_pods(node: Node | None) -> bool:
    """Tell whether the volumes of ended pods stay attached until the pods are gone."""
    annotations = node.metadata.annotations if node is not None else None
    return annotations is not None and annotations.keep_terminated_pod_volumes == "true"


def is_ready(node: Node) -> bool:
    """Tell whether the condition Ready of a node is true."""
    return true_condition(node.status.conditions, "Ready") is not None


def is_out_of_service(node: Node) -> bool:
    """Tell whether a user has declared that nothing runs on a node any more."""
    return any(each.key == OUT_OF_SERVICE for each in node.spec.taints or ())


def _node_of(attachment: Attachment) -> Iterable[str]:
    return (attachment.spec.node_name,)


def _source_of(attachment: Attachment) -> Iterable[str]:
    source = attachment.spec.source
    if source.persistent_volume_name is not None:
        return (source.persistent_volume_name,)
    inline = source.inline_volume_spec
    if inline is None or inline.csi is None:
        return ()
    return (csi_name(inline.csi.driver, inline.csi.volume_handle),)


def listed_on(node: Node) -> list[str]:
    """Return the unique names of the volumes that a node's status lists."""
    return [each.name for each in node.status.volumes_attached or ()]


_BY_NODE: Final = Index("node", _node_of, lambda old, new: old.spec == new.spec)
_BY_SOURCE: Final = Index("source", _source_of, lambda old, new: old.spec == new.spec)
"""Attachments by the persistent volume, or by the unique name of a pod's own volume."""
_BY_LISTED: Final = Index(
    "volumesAttached",
    listed_on,
    lambda old, new: old.status.volumes_attached == new.status.volumes_attached,
)


class DesiredVolumes(Struct, frozen=True):
    """The volumes that the pods of a node need.

    - `volumes`: the volumes and their pods, by unique name.
    - `unresolved`: the volumes that the caches do not show yet.
    - `used`: the unique names of the volumes of all pods, also of ended pods.
    """

    volumes: dict[str, tuple[Volume, tuple[Pod, ...]]]
    unresolved: tuple[Unresolved, ...]
    used: tuple[str, ...]

    def may_include(self, volume: PersistentVolume) -> bool:
        """Tell whether an unresolved volume may be this persistent volume."""
        claim = claim_key(volume)
        return any(
            each.claim == claim or each.persistent_volume == volume.metadata.name
            for each in self.unresolved
        )


class MultiAttach(Struct, frozen=True):
    """The other nodes that have an exclusive volume, and the pods that use it there.

    `stays`: they will not release the volume at once; then users are told.
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

    `used_by_pods` are the unique names of the volumes of all its pods, also ended ones.
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
    """Makes views of nodes, from indexes of the caches."""

    def __init__(
        self, context: ControllerContext, volumes: Volumes, pending: PendingAttachments
    ) -> None:
        self._volumes = volumes
        self._pending = pending
        self._nodes = context.lister(NODES, _BY_LISTED)
        self._pods = context.lister(PODS, PODS_BY_NODE)
        self.attachments = context.lister(ATTACHMENTS, _BY_NODE, _BY_SOURCE)

    def has_attachments(self, name: str) -> bool:
        """Tell whether a node has attachments; the node may be deleted."""
        return bool(self.attachments.by_index(_BY_NODE, name))

    def of(self, name: str, last_in_use: frozenset[str] | None) -> NodeView:
        """Return the view of a node.

        `last_in_use`: what a deleted node used, `None` if this process did not see it.
        """
        node = self._nodes.by_key(name)
        desired = self._desired(name, node)
        if node is not None:
            last_in_use = frozenset(node.status.volumes_in_use or ())
        volumes = self._node_volumes(name, node, desired, last_in_use)
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

        They come in the order of the node's list: the same state, the same writes.
        """
        names = listed_on(node) if node is not None else ()
        listed = dict.fromkeys(each for each in names if is_known(each))
        pending = sorted(self._pending.volumes_of(name))
        named = dict.fromkeys((*desired.volumes, *listed, *(in_use or ()), *pending))
        found: dict[str, Attachment] = {}
        for unique, attachment in self._attachments_on(name, named):
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
        for each in self._nodes.by_index(_BY_LISTED, unique):
            if (other := each.metadata.name) != node:
                others[other] = True
        for attachment in self._attachments_of(unique):
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
        desired = self._desired(name, self._nodes.by_key(name))
        return desired.volumes[unique][1] if unique in desired.volumes else ()

    def _may_use(self, name: str, unique: str) -> bool:
        """Tell whether another node reports that it uses a volume, or is gone."""
        node = self._nodes.by_key(name)
        in_use = node.status.volumes_in_use if node is not None else None
        return node is None or unique in (in_use or ())

    # The desired state of the world: the volumes that pods need.

    def _desired(self, name: str, node: Node | None) -> DesiredVolumes:
        """Return the volumes that the pods of a node need; ended pods need none."""
        volumes: dict[str, tuple[Volume, tuple[Pod, ...]]] = {}
        unresolved: list[Unresolved] = []
        used: list[str] = []
        keeps = keeps_volumes_of_ended_pods(node)
        on_node = self._pods.by_index(PODS_BY_NODE, name)
        for pod in sorted((each for each in on_node if each.spec.volumes), key=key_of):
            needs = keeps or not has_stopped(pod)
            for found in self._volumes.of(pod):
                if isinstance(found, Volume):
                    used.append(found.unique_name)
                    first, pods = volumes.get(found.unique_name, (found, ()))
                    if needs and pod not in pods:
                        volumes[found.unique_name] = (first, (*pods, pod))
                elif needs:
                    unresolved.append(found)
        return DesiredVolumes(volumes, tuple(unresolved), tuple(used))

    # The actual state of the world: the attachments.

    def _attachments_on(
        self, name: str, named: Iterable[str]
    ) -> Iterator[tuple[str, Attachment]]:
        """Yield the attachments to a node with the unique names of their volumes.

        A name is empty if the caches do not have the persistent volume. `named` are the
        volumes that the node or its pods name.
        """
        by_name = {attachment_name(each, name): each for each in named}
        by_name.pop("", None)
        for attachment in self.attachments.by_index(_BY_NODE, name):
            unique = by_name.get(attachment.metadata.name)
            if unique is None:
                unique = self._unique_name_of(attachment)
            if unique is not None:
                yield unique, attachment

    def _unique_name_of(self, attachment: Attachment) -> str | None:
        """Return the unique name of an attachment's volume, by the attachment's spec.

        It is "" if its persistent volume is gone, `None` if another program made it.
        """
        source, node = attachment.spec.source, attachment.spec.node_name
        name = attachment.metadata.name
        if source.persistent_volume_name is None:
            found = [*_source_of(attachment)]
        else:
            stored = self._volumes.persistent.by_key(source.persistent_volume_name)
            if stored is None:
                return "" if is_attachment_name(name) else None
            volume = volume_of(stored)
            found = [volume.unique_name] if volume is not None else []
        return found[0] if found and attachment_name(found[0], node) == name else None

    def _attachments_of(self, unique: str) -> Iterator[Attachment]:
        volumes = self._volumes.persistent.by_index(BY_UNIQUE_NAME, unique)
        named = (each.metadata.name for each in volumes)
        for source in dict.fromkeys((unique, *named)):
            for each in self.attachments.by_index(_BY_SOURCE, source):
                if each.metadata.name == attachment_name(unique, each.spec.node_name):
                    yield each


def _without_volume(attachment: Attachment, desired: DesiredVolumes) -> NodeVolume:
    """Return the node's volume for an attachment whose persistent volume is gone.

    No name that the node uses fits it. The caches may be old, so the node is read
    before the volume is detached.
    """
    name = attachment.metadata.name
    return NodeVolume(
        key=name,
        attachment_name=name,
        attachment=attachment,
        is_kept=bool(desired.unresolved),
    )
