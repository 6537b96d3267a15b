"""The actions for the volumes of one node, as values."""

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Final

from msgspec import Struct

from controller_manager.api.core.v1 import AttachedVolume

from .tracker import UNTRACKED, TrackedVolume
from .view import NodeView, NodeVolume

SHORTEST_DELAY: Final = 0.001
"""The shortest delay in seconds: a shorter one may be lost by rounding."""


class Operation(Enum):
    """The operation on the attachment of a volume to a node."""

    NONE = auto()
    CREATE = auto()
    DELETE = auto()


class ForcedDetach(Enum):
    """The reason for a detach that ignores the node; a label of a metric."""

    TIMEOUT = "timeout"
    OUT_OF_SERVICE = "out-of-service"


class VolumeAction(Struct, frozen=True, kw_only=True):
    """The action for one volume of a node.

    - `tracked`: the data to track for it from now on, `UNTRACKED` for none.
    - `lists`: the node's status should list the volume.
    - `list_by`: the time by which the status should list a volume that is not listed.
    - `operation`: the operation on the attachment.
    - `forced`: the reason to detach although the node may use the volume.
    - `failure`: the reason why the attempt to attach the volume has failed.
    - `reports_multi_attach`: tell users that another node has the volume.
    - `requeue_at`: the time of the next decision, if nothing changes.

    Times are those of the monotonic clock.
    """

    tracked: TrackedVolume = UNTRACKED
    lists: bool = False
    list_by: float | None = None
    operation: Operation = Operation.NONE
    forced: ForcedDetach | None = None
    failure: str = ""
    reports_multi_attach: bool = False
    requeue_at: float | None = None


class NodeActions(Struct, frozen=True):
    """The actions for the volumes of a node, by key, and the list for its status.

    `listed` is `None` if the status is right. `added` are the keys of the volumes that
    the status lists for the first time. `lost` are the keys of the volumes that pods
    need, that the status lists now, and that it must not list any more: according to
    the cache they are detached.
    """

    by_key: Mapping[str, VolumeAction]
    listed: tuple[AttachedVolume, ...] | None = None
    added: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    def with_operation(
        self, view: NodeView, operation: Operation
    ) -> Iterator[tuple[NodeVolume, VolumeAction]]:
        """Yield the volumes whose attachments need an operation, with their actions."""
        for key, action in self.by_key.items():
            if action.operation is operation:
                yield view.volumes[key], action

    def requeue_after(self, now: float) -> float | None:
        """Return the seconds until the next decision, `None` if none is due.

        They are none or less if its time has come in the meantime.
        """
        times = [
            each.requeue_at
            for each in self.by_key.values()
            if each.requeue_at is not None
        ]
        return min(times) - now if times else None
