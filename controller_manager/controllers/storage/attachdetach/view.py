"""Reads the places of one node from the caches.

All of it is found by indexes: a view costs time for the pods and the attachments of one
node, and for the other nodes of the volumes that they share.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from controller_manager.api.core.v1 import NODES, PODS, Node, Pod
from controller_manager.api.core.volumes import PersistentVolume
from controller_manager.api.meta import is_deleting, key_of
from controller_manager.api.storage.v1 import ATTACHMENTS, Attachment
from controller_manager.control.pods_by_node import PODS_BY_NODE
from controller_manager.controllers.storage.attachdetach.holds import Holds
from controller_manager.controllers.storage.attachdetach.names import (
    attachment_name,
    csi_name,
    is_attachment_name,
    is_known,
)
from controller_manager.controllers.storage.attachdetach.node_state import (
    is_managed,
    is_out_of_service,
    is_ready,
    keeps_volumes_of_ended_pods,
)
from controller_manager.controllers.storage.attachdetach.places import (
    Block,
    NodeView,
    Place,
)
from controller_manager.controllers.storage.attachdetach.volumes import (
    BY_UNIQUE_NAME,
    Unresolved,
    Volume,
    Volumes,
    is_ended,
    volume_of,
)
from controller_manager.informers.indexes import Index
from controller_manager.runtime.context import ControllerContext


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


def _is_same_request(old: Attachment, new: Attachment) -> bool:
    return old.spec == new.spec


def _listed(node: Node) -> Iterable[str]:
    return [each.name for each in node.status.volumes_attached or ()]


def _lists_the_same(old: Node, new: Node) -> bool:
    return old.status.volumes_attached == new.status.volumes_attached


_BY_NODE: Final = Index("node", _node_of, _is_same_request)
_BY_SOURCE: Final = Index("source", _source_of, _is_same_request)
"""Attachments by the persistent volume, or by the unique name of a pod's own volume."""
_BY_LISTED: Final = Index("volumesAttached", _listed, _lists_the_same)


class _Pods(Struct, frozen=True):
    """What the pods of a node need: volumes, and volumes that nobody can name yet."""

    volumes: dict[str, tuple[Volume, tuple[Pod, ...]]]
    unresolved: tuple[Unresolved, ...]
    used: tuple[str, ...]

    def names(self, volume: PersistentVolume) -> bool:
        """Tell whether an unresolved volume may be this one."""
        reference = volume.spec.claim_ref
        claim = f"{reference.namespace}/{reference.name}" if reference else ""
        return any(
            each.claim == claim or each.persistent_volume == volume.metadata.name
            for each in self.unresolved
        )


class Views:
    """Makes views of nodes."""

    def __init__(
        self, context: ControllerContext, volumes: Volumes, holds: Holds
    ) -> None:
        """Take the context; watch pods, nodes and attachments."""
        self._volumes = volumes
        self._holds = holds
        self._pods = context.lister(PODS, PODS_BY_NODE)
        self._nodes = context.lister(NODES, _BY_LISTED)
        self.attachments = context.lister(ATTACHMENTS, _BY_NODE, _BY_SOURCE)

    def of(self, name: str, last_in_use: frozenset[str] | None) -> NodeView:
        """Return the view of a node.

        `last_in_use` is what the node used before it went, `None` if nobody knows.
        """
        node = self._nodes.by_key(name)
        pods = self._needs(name, node)
        in_use = last_in_use
        if node is not None:
            in_use = frozenset(node.status.volumes_in_use or ())
        places = self._places(name, node, pods, in_use)
        return NodeView(
            name=name,
            node=node,
            is_ready=node is not None and is_ready(node),
            is_out_of_service=node is not None and is_out_of_service(node),
            places={place.key: place for place in places},
            used_by_pods=pods.used,
        )

    def has_attachments(self, name: str) -> bool:
        """Tell whether there are attachments to a node, also to one that is gone."""
        return bool(self.attachments.by_index(_BY_NODE, name))

    def _needs(self, name: str, node: Node | None) -> _Pods:
        """Return what the pods of a node need that have not ended."""
        volumes: dict[str, tuple[Volume, tuple[Pod, ...]]] = {}
        unresolved: list[Unresolved] = []
        used: list[str] = []
        keeps = keeps_volumes_of_ended_pods(node)
        on_node = (
            each
            for each in self._pods.by_index(PODS_BY_NODE, name)
            if each.spec.volumes
        )
        for pod in sorted(on_node, key=key_of):
            needs = keeps or not is_ended(pod)
            for found in self._volumes.of(pod):
                if isinstance(found, Volume):
                    used.append(found.unique_name)
                    first, pods = volumes.get(found.unique_name, (found, ()))
                    if needs and pod not in pods:
                        volumes[found.unique_name] = (first, (*pods, pod))
                elif needs:
                    unresolved.append(found)
        return _Pods(volumes, tuple(unresolved), tuple(used))

    def _places(
        self,
        name: str,
        node: Node | None,
        pods: _Pods,
        in_use: frozenset[str] | None,
    ) -> Iterator[Place]:
        """Yield the places of a node; `in_use` is what it uses, `None` if unknown.

        Those that the node lists are in its order: the same state has the same writes
        in the same order.
        """
        names = _listed(node) if node is not None else ()
        listed = dict.fromkeys(each for each in names if is_known(each))
        pending = sorted(self._holds.of(name))
        named = dict.fromkeys((*pods.volumes, *listed, *(in_use or ()), *pending))
        found: dict[str, Attachment] = {}
        for unique, attachment in self._attachments_on(name, named):
            if unique:
                found[unique] = attachment
            else:
                yield _nameless(attachment, pods)
        managed = node is not None and is_managed(node)
        for unique in dict.fromkeys((*pods.volumes, *listed, *pending, *found)):
            volume, users = pods.volumes.get(unique, (None, ()))
            here = found.get(unique)
            place = Place(
                key=unique,
                unique_name=unique,
                attachment_name=attachment_name(unique, name),
                attachment=here,
                is_listed=unique in listed,
                in_use=in_use is None or unique in in_use,
                is_pending=unique in pending,
            )
            if volume is None or not managed:
                kept = volume is not None or self._is_kept(place, pods)
                yield replace(place, is_kept=kept)
            else:
                block = self._block(volume, place, name)
                yield replace(place, volume=volume, pods=users, block=block)

    def _attachments_on(
        self, name: str, named: Iterable[str]
    ) -> Iterator[tuple[str, Attachment]]:
        """Yield the attachments to a node with the unique names of their volumes.

        A unique name is empty if nobody knows it. `named` are volumes that the node or
        its pods name: their attachments are found by their names.
        """
        by_name = {attachment_name(each, name): each for each in named}
        by_name.pop("", None)
        for attachment in self.attachments.by_index(_BY_NODE, name):
            unique = by_name.get(attachment.metadata.name)
            if unique is None:
                unique = self._name_of(attachment)
            if unique is not None:
                yield unique, attachment

    def _name_of(self, attachment: Attachment) -> str | None:
        """Return the unique name of an attachment's volume by what it says.

        Empty if its persistent volume is gone; `None` if somebody else made it.
        """
        source, node = attachment.spec.source, attachment.spec.node_name
        name = attachment.metadata.name
        if source.persistent_volume_name is None:
            said = [*_source_of(attachment)]
        else:
            volume = self._volumes.persistent.by_key(source.persistent_volume_name)
            if volume is None:
                return "" if is_attachment_name(name) else None
            found = volume_of(volume)
            said = [found.unique_name] if found is not None else []
        return said[0] if said and attachment_name(said[0], node) == name else None

    def _is_kept(self, place: Place, pods: _Pods) -> bool:
        """Tell whether a volume may be one that a pod uses and nobody can name yet."""
        if not pods.unresolved:
            return False
        unique, attachment = place.unique_name, place.attachment
        volumes = list(self._volumes.persistent.by_index(BY_UNIQUE_NAME, unique))
        source = attachment.spec.source.persistent_volume_name if attachment else None
        if source is not None:
            named = self._volumes.persistent.by_key(source)
            volumes += [named] if named is not None else []
        return not volumes or any(map(pods.names, volumes))

    def _block(self, volume: Volume, place: Place, node: str) -> Block | None:
        """Return the other nodes that have an exclusive volume, `None` if none has."""
        is_here = place.attachment is not None or place.is_listed
        if is_here or not volume.exclusive:
            return None
        held = self._holds.holder(volume.unique_name)
        others = {each: False for each in (held,) if each not in {"", node}}
        for each in self._nodes.by_index(_BY_LISTED, volume.unique_name):
            if each.metadata.name != node:
                others[each.metadata.name] = True
        for attachment in self._attachments_of(volume):
            other = attachment.spec.node_name
            if other != node:
                is_firm = attachment.status.attached and not is_deleting(attachment)
                others[other] = others.get(other, False) or is_firm
        if not others:
            return None
        attached = sorted(other for other, is_firm in others.items() if is_firm)
        pods = tuple(
            pod for other in attached for pod in self._users(volume.unique_name, other)
        )
        stays = bool(pods) or any(self._uses(each, volume) for each in attached)
        return Block(tuple(sorted(others)), pods, stays)

    def _attachments_of(self, volume: Volume) -> Iterator[Attachment]:
        unique = volume.unique_name
        volumes = self._volumes.persistent.by_index(BY_UNIQUE_NAME, unique)
        for source in dict.fromkeys(
            (unique, *(each.metadata.name for each in volumes))
        ):
            for each in self.attachments.by_index(_BY_SOURCE, source):
                if each.metadata.name == attachment_name(unique, each.spec.node_name):
                    yield each

    def _users(self, unique: str, name: str) -> tuple[Pod, ...]:
        """Return the pods of another node that use a volume there."""
        needs = self._needs(name, self._nodes.by_key(name))
        return needs.volumes[unique][1] if unique in needs.volumes else ()

    def _uses(self, name: str, volume: Volume) -> bool:
        """Tell whether another node uses a volume, or nobody knows."""
        node = self._nodes.by_key(name)
        in_use = node.status.volumes_in_use if node is not None else None
        return node is None or volume.unique_name in (in_use or ())


def _nameless(attachment: Attachment, pods: _Pods) -> Place:
    """Return the place of an attachment whose persistent volume is gone.

    By the caches its node does not use it: all that the node uses was compared with its
    name. The caches may be old, so the node is read before it is detached.
    """
    name = attachment.metadata.name
    return Place(
        key=name,
        attachment_name=name,
        attachment=attachment,
        is_kept=bool(pods.unresolved),
    )
