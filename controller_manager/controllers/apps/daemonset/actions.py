"""The plan of a sync: the pods to create and to delete, as a value."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from controller_manager.api.core.v1 import Pod

BURST_REPLICAS: Final = 250
"""The most pods that one plan creates, and the most that it deletes."""


class Deletion(Struct, frozen=True):
    """A pod to delete, and its node.

    `has_ended` is true if the pod is deleted because it has failed or succeeded. An
    event reports this, and a failed pod begins a delay.
    """

    node: str
    pod: Pod
    has_ended: bool = False


class Plan(Struct, frozen=True):
    """The nodes to create a pod for, and the pods to delete.

    `requeue_after`, in seconds, requests another sync, which no event would cause.
    """

    nodes: tuple[str, ...] = ()
    deletions: tuple[Deletion, ...] = ()
    requeue_after: float | None = None

    @property
    def is_empty(self) -> bool:
        """True if the plan creates and deletes no pod."""
        return not self.nodes and not self.deletions


def in_burst(
    nodes: Sequence[str],
    deletions: Sequence[Deletion],
    requeue_after: float | None = None,
) -> Plan:
    """Return a plan of at most `BURST_REPLICAS` creations and as many deletions.

    The events of these pods cause the next sync, which continues.
    """
    return Plan(
        tuple(nodes[:BURST_REPLICAS]), tuple(deletions[:BURST_REPLICAS]), requeue_after
    )
