"""The texts of events, as upstream's operation generator and reconciler write them."""

from collections.abc import Sequence
from typing import Final

from controller_manager.api.core.v1 import Pod

from .view import MultiAttach
from .volumes import Volume

SUCCEEDED: Final = "SuccessfulAttachVolume"
FAILED: Final = "FailedAttachVolume"

_EXCLUSIVE: Final = (
    "Volume is already exclusively attached to one node and can't be attached to "
    "another"
)


def attached(volume: Volume) -> str:
    """Return the message for a volume that is attached; it ends with a blank."""
    return f'AttachVolume.Attach succeeded for volume "{volume.name}" '


def not_attached(volume: Volume, failure: str) -> str:
    """Return the message for a volume that could not be attached."""
    return f'AttachVolume.Attach failed for volume "{volume.name}" : {failure}'


def multi_attach_error(volume: Volume, multi_attach: MultiAttach, pod: Pod) -> str:
    """Return the message for a pod whose volume another node has.

    It names only pods of the same namespace: a user who may read this pod may not be
    allowed to read pods of other namespaces.
    """
    reason = _users(multi_attach.pods, pod) if multi_attach.pods else _EXCLUSIVE
    return f'Multi-Attach error for volume "{volume.name}" {reason}'


def _users(users: Sequence[Pod], pod: Pod) -> str:
    namespace = pod.metadata.namespace
    local = [
        each.metadata.name for each in users if each.metadata.namespace == namespace
    ]
    others = len(users) - len(local)
    of_others = f"{others} pod(s) in different namespaces"
    if not local:
        return f"Volume is already used by {of_others}"
    named = f"Volume is already used by pod(s) {', '.join(local)}"
    return f"{named} and {of_others}" if others else named
