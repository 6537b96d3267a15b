"""The promises of the protection of claims."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from controller_manager.controllers.storage.claimprotection.controller import FINALIZER
from tests.controllers.storage.claimprotection.workload import STORAGE, ClaimUsers
from tests.simulation.changes import only
from tests.simulation.objects import controller_of
from tests.simulation.properties import AllowedWrite, Properties, Write

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


_CLAIMS: Final = "persistentvolumeclaims"


class ClaimProtectionProperties(Properties):
    """It changes the finalizer of claims; no claim is gone while a pod uses it."""

    controller = "persistentvolumeclaim-protection-controller"
    may_write = (AllowedWrite(("update",), _CLAIMS, only(("metadata", "finalizers"))),)
    workload = ClaimUsers

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that no claim loses its finalizer while a running pod uses it."""
        claim = write.before
        if write.controller != self.controller or claim is None:
            return
        if write.after is not None and is_protected(write.after):
            return
        for pod in self._users(claim):
            if _began_before_deletion(pod, claim):
                yield f"{write}: the pod {pod['metadata']['name']} uses the claim"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that claims have the finalizer until they are deleted and unused."""
        del managers
        for claim in self.state.stored(_CLAIMS):
            name = claim["metadata"]["name"]
            if not is_deleted(claim) and not is_protected(claim):
                yield f"the claim {name} has lost its finalizer"
            if is_deleted(claim) and is_protected(claim) and not self._users(claim):
                yield f"the deleted claim {name} stays, and no pod uses it"

    def end_state(self) -> JSON:
        """Return the finalizers of the users' claims."""
        return {
            claim["metadata"]["name"]: claim["metadata"].get("finalizers")
            for claim in self.state.stored(_CLAIMS, STORAGE)
        }

    def _users(self, claim: JSON) -> list[JSON]:
        """Return the pods with a node that name a claim, and still need it."""
        metadata = claim["metadata"]
        return [
            each
            for each in self.state.stored("pods", metadata["namespace"])
            if each["spec"].get("nodeName")
            and _names(each, metadata["name"])
            and not _is_done_with_its_own(each, claim)
        ]


def is_protected(claim: JSON) -> bool:
    """Tell whether a claim has the finalizer."""
    return FINALIZER in claim["metadata"].get("finalizers", [])


def is_deleted(claim: JSON) -> bool:
    """Tell whether a claim is being deleted."""
    return "deletionTimestamp" in claim["metadata"]


def _names(pod: JSON, claim: str) -> bool:
    volumes = pod["spec"].get("volumes", [])
    return any(
        each.get("persistentVolumeClaim", {}).get("claimName") == claim
        for each in volumes
    )


def _is_done_with_its_own(pod: JSON, claim: JSON) -> bool:
    """Tell whether a pod owns a claim, and its kubelet is done with the pod."""
    metadata = pod["metadata"]
    is_done = "deletionTimestamp" in metadata and not metadata.get(
        "deletionGracePeriodSeconds"
    )
    return is_done and controller_of(claim) == metadata["uid"]


def _began_before_deletion(pod: JSON, claim: JSON) -> bool:
    """Tell whether a kubelet had started a pod when its claim was deleted.

    It starts no pod whose claim is being deleted.
    """
    began = str(pod.get("status", {}).get("startTime", ""))
    deleted = str(claim["metadata"].get("deletionTimestamp", ""))
    return bool(began and deleted) and began < deleted


PROPERTIES = ClaimProtectionProperties
