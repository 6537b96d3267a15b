"""The data of one sync of a node: its places, and what is remembered of them.

A place is one volume on one node, whether it is attached there or to be attached.
"""

from collections.abc import Mapping

from msgspec import Struct

from controller_manager.api.core.v1 import AttachedVolume, Node, Pod
from controller_manager.api.storage.v1 import Attachment
from controller_manager.controllers.storage.attachdetach.volumes import Volume


class Block(Struct, frozen=True):
    """Why an exclusive volume may not be attached: other nodes have it.

    `pods` use it there. `stays` says that it will not be detached there at once; then
    users are told.
    """

    nodes: tuple[str, ...]
    pods: tuple[Pod, ...] = ()
    stays: bool = False


class Place(Struct, frozen=True, kw_only=True):
    """One volume on one node.

    - `key`: the unique name of the volume; that of the attachment if nobody knows it.
    - `unique_name`: empty if nobody knows it: the persistent volume is gone.
    - `attachment_name`: empty if no CSI driver attaches the volume.
    - `volume`, `pods`: the volume and the pods that want it here; `None` and empty if
      it is not to be here.
    - `is_listed`: the node's status lists it as attached.
    - `in_use`: the node says that it uses the volume, or nobody knows.
    - `is_kept`: it may be what a pod uses, so it stays as it is.
    - `is_pending`: it may be attached although the caches do not show that.
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
    block: Block | None = None


class NodeView(Struct, frozen=True, kw_only=True):
    """A node, `None` if it is gone, and its places by their keys.

    `used_by_pods` are the unique names of the volumes of all its pods, also of those
    that have ended.
    """

    name: str
    node: Node | None = None
    is_ready: bool = False
    is_out_of_service: bool = False
    places: Mapping[str, Place] = {}
    used_by_pods: tuple[str, ...] = ()

    @property
    def listed(self) -> tuple[AttachedVolume, ...]:
        """What the node's status lists as attached."""
        return (self.node.status.volumes_attached if self.node else None) or ()


class Memory(Struct, frozen=True, kw_only=True):
    """What is remembered of a place from one sync to the next.

    Times are in seconds of the monotonic clock.

    - `detaching_since`: since when the volume is not wanted here any more.
    - `lost_since`: since when the node lists it, and its attachment does not say so.
    - `attached_since`: since when the node's status is to list it.
    - `trying_since`, `failures`, `not_before`: the present attempt to attach it, how
      many have failed, and when the next one may begin.
    - `announced`: the uid of the attachment whose success was reported.
    - `refusal_reported`: whether users were told that another node has it.
    - `deleted`: the uid of the attachment that was deleted.
    """

    detaching_since: float | None = None
    lost_since: float | None = None
    attached_since: float | None = None
    trying_since: float | None = None
    failures: int = 0
    not_before: float = 0.0
    announced: str = ""
    refusal_reported: bool = False
    deleted: str = ""


NOTHING = Memory()
