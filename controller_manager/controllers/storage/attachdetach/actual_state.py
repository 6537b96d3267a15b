"""The actual state of the world: the attachments, and the lists of the nodes.

Upstream: cache/actual_state_of_world.go. There the state is a map of all nodes. Here it
is read from the caches by indexes.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from controller_manager.api.core.v1 import NODES, Node
from controller_manager.api.storage.v1 import ATTACHMENTS, Attachment
from controller_manager.informers.indexes import Index
from controller_manager.runtime.context import ControllerContext

from .names import attachment_name, csi_name, is_attachment_name
from .volumes import BY_UNIQUE_NAME, Volumes, volume_of


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


def listed_on(node: Node) -> list[str]:
    """Return the unique names of the volumes that a node's status lists."""
    return [each.name for each in node.status.volumes_attached or ()]


def _lists_the_same(old: Node, new: Node) -> bool:
    return old.status.volumes_attached == new.status.volumes_attached


_BY_NODE: Final = Index("node", _node_of, _is_same_request)
_BY_SOURCE: Final = Index("source", _source_of, _is_same_request)
"""Attachments by the persistent volume, or by the unique name of a pod's own volume."""
_BY_LISTED: Final = Index("volumesAttached", listed_on, _lists_the_same)


class ActualState:
    """Reads the attachments of nodes and of volumes."""

    def __init__(self, context: ControllerContext, volumes: Volumes) -> None:
        """Take the context and the persistent volumes; watch nodes and attachments."""
        self._volumes = volumes
        self.nodes = context.lister(NODES, _BY_LISTED)
        self.attachments = context.lister(ATTACHMENTS, _BY_NODE, _BY_SOURCE)

    def has_attachments(self, name: str) -> bool:
        """Tell whether a node has attachments; the node may be deleted."""
        return bool(self.attachments.by_index(_BY_NODE, name))

    def attachments_on(
        self, name: str, named: Iterable[str]
    ) -> Iterator[tuple[str, Attachment]]:
        """Yield the attachments to a node with the unique names of their volumes.

        A unique name is empty if the caches do not have the persistent volume. `named`
        are volumes that the node or its pods name: their attachments are found by
        their names.
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
        """Return the unique name of an attachment's volume, from the attachment's spec.

        Return "" if its persistent volume is gone, and `None` if another program made
        the attachment.
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

    def nodes_that_list(self, unique: str) -> Iterator[str]:
        """Yield the names of the nodes whose status lists a volume."""
        for each in self.nodes.by_index(_BY_LISTED, unique):
            yield each.metadata.name

    def attachments_of(self, unique: str) -> Iterator[Attachment]:
        """Yield the attachments of a volume to any node."""
        volumes = self._volumes.persistent.by_index(BY_UNIQUE_NAME, unique)
        for source in dict.fromkeys(
            (unique, *(each.metadata.name for each in volumes))
        ):
            for each in self.attachments.by_index(_BY_SOURCE, source):
                if each.metadata.name == attachment_name(unique, each.spec.node_name):
                    yield each
