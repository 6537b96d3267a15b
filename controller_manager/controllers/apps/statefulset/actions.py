"""The actions of the stateful set controller, as values; `apply` carries them out.

A change is about one pod or its claims. An action says which changes to make one
after the other, and which at the same time.
"""

from msgspec import Struct

from controller_manager.api.apps.v1 import StatefulSetStatus
from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.v1 import Pod
from controller_manager.control.decision import Decision, Reason, Step


class ClaimWork(Struct, frozen=True):
    """What is to be done about the claims of one pod.

    `missing` claims are created. If `deleting` names a claim, the pod has to wait for
    its end. The owners of the claims in `owners` are corrected. Those in `conflicts`
    have a controller that the retention policy does not apply to.
    """

    missing: tuple[PersistentVolumeClaim, ...] = ()
    deleting: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.missing or self.deleting or self.owners)


class CreatePod(Struct, frozen=True):
    """Create the claims of a pod that do not exist, then the pod.

    `revision` is the name of the one that it is made from.
    """

    name: str
    ordinal: int
    revision: str
    claims: ClaimWork = ClaimWork()


class RefusePod(Struct, frozen=True):
    """Tell that a pod cannot be created, because a pod of another has its name."""

    name: str


class CompleteClaims(Struct, frozen=True):
    """Create the missing claims of a pending pod, and correct owners of others."""

    pod: Pod
    claims: ClaimWork


class UpdatePod(Struct, frozen=True):
    """Give a pod its identity back, and its claims the right owners.

    With `restores_identity` the labels of its identity are patched, with
    `restores_volumes` the volumes for its claims.
    """

    pod: Pod
    ordinal: int
    claims: ClaimWork = ClaimWork()
    restores_identity: bool = False
    restores_volumes: bool = False


class CorrectOwners(Struct, frozen=True):
    """Correct the owners of the claims of a pod that is to be deleted."""

    pod: Pod
    claims: ClaimWork


class DeletePod(Struct, frozen=True):
    """Delete this pod, `for_update` if one of the update revision replaces it."""

    pod: Pod
    for_update: bool = False


Change = CreatePod | RefusePod | CompleteClaims | UpdatePod | CorrectOwners | DeletePod


class InTurn(Struct, frozen=True):
    """Make changes one after the other; a failure ends the sync."""

    changes: tuple[Change, ...]

    @property
    def awaits(self) -> Reason | None:
        """Nothing: the reasons are those of the decision."""
        return None


class Together(Struct, frozen=True):
    """Make the changes of several pods at the same time, with a slow start.

    The changes of one group are made one after the other. After a failure no
    further group is started, and it ends the sync.
    """

    groups: tuple[tuple[Change, ...], ...]

    @property
    def awaits(self) -> Reason | None:
        """Nothing: the reasons are those of the decision."""
        return None


Action = InTurn | Together
StatefulSetStep = Step[Action]
StatefulSetDecision = Decision[Action, StatefulSetStatus]
