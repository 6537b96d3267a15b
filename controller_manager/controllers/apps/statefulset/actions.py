"""The actions of the stateful set controller, as values; `apply` carries them out.

A change is about one pod or its claims. An action makes changes one after the other,
or at the same time.
"""

from msgspec import Struct

from controller_manager.api.apps.v1 import StatefulSetStatus
from controller_manager.api.core.claims import PersistentVolumeClaim
from controller_manager.api.core.v1 import Pod
from controller_manager.control.decision import Decision, Step
from controller_manager.runtime.outcome import Reason


class ClaimChanges(Struct, frozen=True):
    """The changes that the claims of one pod need.

    `missing` claims are created. If `deleting` names a claim, the pod must wait until
    it is gone. The owners of the claims in `owners` are corrected. The claims in
    `conflicts` have another controller, so the retention policy does not apply to them.
    """

    missing: tuple[PersistentVolumeClaim, ...] = ()
    deleting: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()

    @property
    def is_needed(self) -> bool:
        """True if a claim must be created, awaited or corrected."""
        return bool(self.missing or self.deleting or self.owners)


class CreatePod(Struct, frozen=True):
    """Create the claims of a pod that do not exist, then the pod.

    `revision` is the name of the revision that the pod is made from.
    """

    name: str
    ordinal: int
    revision: str
    claims: ClaimChanges = ClaimChanges()


class RefusePod(Struct, frozen=True):
    """Report that a pod cannot be created: a pod of another owner has its name."""

    name: str


class CompleteClaims(Struct, frozen=True):
    """Create the missing claims of a pending pod, and correct owners of others."""

    pod: Pod
    claims: ClaimChanges


class UpdatePod(Struct, frozen=True):
    """Give a pod its identity back, and its claims the right owners.

    With `restores_identity` the labels of its identity are patched. Its volumes stay:
    the API server refuses to change them, also for upstream, which tries.
    """

    pod: Pod
    ordinal: int
    claims: ClaimChanges = ClaimChanges()
    restores_identity: bool = False


class CorrectOwners(Struct, frozen=True):
    """Correct the owners of the claims of a pod that is to be deleted."""

    pod: Pod
    claims: ClaimChanges


class DeletePod(Struct, frozen=True):
    """Delete this pod; `for_update` if a pod of the update revision replaces it."""

    pod: Pod
    for_update: bool = False


Change = CreatePod | RefusePod | CompleteClaims | UpdatePod | CorrectOwners | DeletePod


class InTurn(Struct, frozen=True):
    """Make changes one after the other; a failure ends the sync."""

    changes: tuple[Change, ...]

    @property
    def awaits(self) -> Reason | None:
        """No reason: the decision has the reasons."""
        return None


class Together(Struct, frozen=True):
    """Make the changes of several pods at the same time, with a slow start.

    The changes of one group are made one after the other. After a failure no
    further group is started, and it ends the sync.
    """

    groups: tuple[tuple[Change, ...], ...]

    @property
    def awaits(self) -> Reason | None:
        """No reason: the decision has the reasons."""
        return None


Action = InTurn | Together
StatefulSetStep = Step[Action]
StatefulSetDecision = Decision[Action, StatefulSetStatus]
