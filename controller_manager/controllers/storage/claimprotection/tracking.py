"""The reconciler of claims that also keeps their condition Unused."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import key_of
from controller_manager.client.errors import NotFound, is_about
from controller_manager.control.pods_by_claim import PODS_BY_CLAIM, claim_names
from controller_manager.controllers.storage.claimprotection.gates import UNUSED_SINCE
from controller_manager.controllers.storage.claimprotection.reconciler import (
    ClaimProtectionReconciler,
    is_settled,
)
from controller_manager.controllers.storage.claimprotection.unused import (
    is_marked,
    is_tracked,
    marked,
    refers,
)
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.watches import For, Maps, Watch
from controller_manager.runtime.worker import Workers


def init_claim_protection(context: ControllerContext) -> Workers:
    """Return the workers of the controller, with the condition if its gate is on."""
    if context.config.features.is_enabled(UNUSED_SINCE):
        return UnusedClaimReconciler.make(context)
    return ClaimProtectionReconciler.make(context)


def _needs_look(claim: PersistentVolumeClaim) -> bool:
    return is_tracked(claim) or not is_settled(claim)


class UnusedClaimReconciler(ClaimProtectionReconciler):
    """Keeps deleted claims, and says since when others are unused.

    The pods that count are read from the cache. A change of a pod adds only those of
    its claims whose condition it contradicts.
    """

    def _contradicted(self, pod: Pod) -> Iterable[str]:
        """Return the claims of a pod whose condition does not fit the pod."""
        return self._claims_without_mark(pod, unused=not refers(pod))

    def _left(self, pod: Pod) -> Iterable[str]:
        """Return the claims of a pod that is gone which are not marked as unused."""
        return self._claims_without_mark(pod, unused=True)

    watches: ClassVar[Sequence[Watch]] = (
        For(CLAIMS, when=_needs_look),
        *ClaimProtectionReconciler.watches[1:],
        Maps(PODS, _contradicted, on=("add", "update")),
        Maps(PODS, _left, on=("delete",)),
    )

    async def reconcile(self, claim: PersistentVolumeClaim) -> Outcome:
        """Settle the finalizer of the claim, then its condition."""
        if not is_settled(claim):
            # Its event brings the claim back for the condition.
            return await super().reconcile(claim)
        if is_tracked(claim):
            await self._mark(claim)
        return DONE

    async def _mark(self, claim: PersistentVolumeClaim) -> None:
        pods = self._pods.by_index(PODS_BY_CLAIM, key_of(claim))
        new = marked(claim, pods, self.clock.now())
        if new is claim:
            return
        try:
            await self.client.update(CLAIMS, new, "status")
        except NotFound as error:
            if not is_about(error, claim.metadata.name):
                raise

    def _claims_without_mark(self, pod: Pod, *, unused: bool) -> Iterable[str]:
        for name in claim_names(pod):
            claim = self.objects.get(pod.metadata.namespace, name)
            if (
                claim is not None
                and is_tracked(claim)
                and not is_marked(claim, unused=unused)
            ):
                yield key_of(claim)
