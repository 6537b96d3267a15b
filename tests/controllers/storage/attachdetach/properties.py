"""The promises of the attach-detach controller."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import parse_quantity
from controller_manager.controllers.storage.attachdetach.volumes import (
    attachment_name,
    csi_name,
)
from tests.controllers.storage.attachdetach.workload import (
    DRIVER,
    VolumeUsers,
    is_wanted,
    volumes_of,
)
from tests.simulation.changes import Path, only
from tests.simulation.properties import AllowedWrite, Properties, Write
from tests.simulation.state import State

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


_ATTACHMENTS: Final = "volumeattachments"
_AMOUNTS: Final = (("status", "allocatable"), ("status", "capacity"))
_LISTED: Final = ("status", "volumesAttached")
_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"


def _lists_volumes(path: Path, old: Any, new: Any) -> bool:
    """Allow changes of the list; the server writes amounts in its own way."""
    if path[:2] in _AMOUNTS:
        return parse_quantity(old) == parse_quantity(new)
    return only(_LISTED)(path, old, new)


class AttachDetachProperties(Properties):
    """Exclusive volumes have one node; nothing in use is detached without reason."""

    controller = "persistentvolume-attach-detach-controller"
    may_write = (
        AllowedWrite(("create", "delete"), _ATTACHMENTS),
        AllowedWrite(("patch",), "nodes/status", _lists_volumes),
    )
    bounded = ("nodes.actual", "nodes.desired", "nodes.in_use")
    workload = VolumeUsers

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self._changes = state.watch("nodes")
        self._held: dict[str, set[str]] = {}
        """By node: the volumes that it has used ever since it listed them."""

    def after_write(self, write: Write) -> Iterator[str]:
        """Check each write of the controller."""
        self._follow()
        if write.controller != self.controller or write.is_late:
            return
        if write.target.plural == _ATTACHMENTS:
            yield from self._of_attachment(write)
        elif write.target.plural == "nodes" and write.after is not None:
            yield from self._of_list(write)

    def _follow(self) -> None:
        """Take the changes of nodes.

        A kubelet reports that it uses a volume before the volume is attached. Then it
        waits until its node lists the volume. So a reported volume that the node does
        not list yet is not in use.
        """
        for change in self._changes.take():
            node = change.after.obj
            name, used = node["metadata"]["name"], set(in_use(node))
            if change.type == "DELETED":
                self._held.pop(name, None)
            else:
                known = self._held.get(name, set()) | set(listed(node))
                self._held[name] = used & known

    def _of_attachment(self, write: Write) -> Iterator[str]:
        if write.verb == "delete" and write.before is not None:
            yield from self._of_deletion(write, write.before)
        elif write.verb == "create" and write.after is not None:
            yield from self._on_two_nodes(write)

    def _of_deletion(self, write: Write, attachment: JSON) -> Iterator[str]:
        spec = attachment["spec"]
        node = self.state.find("nodes", "", spec["nodeName"])
        name = unique_name(attachment)
        if node is None:
            return
        if name in listed(node):
            yield f"{write}: its node lists the volume as attached"
        held = self._held.get(spec["nodeName"], set())
        if name in held and not may_be_forced(node):
            yield f"{write}: its node uses the volume"

    def _on_two_nodes(self, write: Write) -> Iterator[str]:
        for volume, nodes in self._nodes().items():
            if len(nodes) > 1 and is_exclusive(volume):
                yield f"{write}: the volume {volume} has the nodes {sorted(nodes)}"

    def _of_list(self, write: Write) -> Iterator[str]:
        """Check that a node lists only attached volumes, and all used volumes."""
        before = set(listed(write.before)) if write.before is not None else set()
        after, node = set(listed(write.after or {})), write.target.name
        for name in after - before:
            if not self._is_attached(name, node):
                yield f"{write}: {name} is listed and not attached"
        if may_be_forced(write.after or {}):
            return
        for name in (before - after) & self._held.get(node, set()):
            if self._is_attached(name, node, and_stays=True):
                yield f"{write}: {name} is in use and no longer listed"

    def _is_attached(self, volume: str, node: str, *, and_stays: bool = False) -> bool:
        """Tell whether a volume is attached and, with `and_stays`, will stay so."""
        found = self.state.find(_ATTACHMENTS, "", attachment_name(volume, node))
        if found is None or not found["status"].get("attached"):
            return False
        return not and_stays or "deletionTimestamp" not in found["metadata"]

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that exactly the volumes that pods need are attached."""
        del managers
        for node in self.state.stored("nodes"):
            name = node["metadata"]["name"]
            wanted = self._wanted(name)
            has = {
                unique_name(each)
                for each in self.state.stored(_ATTACHMENTS)
                if each["spec"]["nodeName"] == name
            }
            unused = has - wanted - set(in_use(node))
            if unused:
                yield f"{name} has volumes that no pod needs: {sorted(unused)}"
            for volume in wanted - has:
                if not self._is_elsewhere(volume, name):
                    yield f"{name} lacks {volume}"
            if set(listed(node)) != has & wanted | (set(listed(node)) & has):
                yield f"{name} lists {listed(node)} and has {sorted(has)}"

    def _nodes(self) -> dict[str, set[str]]:
        found: defaultdict[str, set[str]] = defaultdict(set)
        for each in self.state.stored(_ATTACHMENTS):
            found[unique_name(each)].add(each["spec"]["nodeName"])
        return dict(found)

    def _is_elsewhere(self, volume: str, node: str) -> bool:
        return is_exclusive(volume) and bool(self._nodes().get(volume, set()) - {node})

    def _wanted(self, node: str) -> set[str]:
        return {
            csi_name(DRIVER, volume)
            for pod in self.state.stored("pods")
            if pod["spec"].get("nodeName") == node and is_wanted(pod)
            for volume in volumes_of(pod)
        }


def unique_name(attachment: JSON) -> str:
    """Return the unique name of the volume of an attachment."""
    spec = attachment["spec"]
    return csi_name(spec["attacher"], spec["source"]["persistentVolumeName"])


def listed(node: JSON) -> list[str]:
    """Return the names of the volumes that a node lists as attached."""
    return [
        each["name"] for each in node.get("status", {}).get("volumesAttached") or ()
    ]


def in_use(node: JSON) -> list[str]:
    """Return the names of the volumes that a node uses."""
    return list(node.get("status", {}).get("volumesInUse") or ())


def may_be_forced(node: JSON) -> bool:
    """Tell whether a volume may be detached although its node uses it."""
    taints = node.get("spec", {}).get("taints") or ()
    if any(each["key"] == _OUT_OF_SERVICE for each in taints):
        return True
    conditions = node.get("status", {}).get("conditions") or ()
    return not any(
        each["type"] == "Ready" and each["status"] == "True" for each in conditions
    )


def is_exclusive(volume: str) -> bool:
    """Tell whether a volume of the workload may have one node only."""
    return "shared" not in volume


PROPERTIES = AttachDetachProperties
