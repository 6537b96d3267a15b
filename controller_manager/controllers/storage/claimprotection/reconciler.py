"""Adds and removes the finalizer of claims (pvc_protection_controller.go)."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import ClassVar, Final

from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import KubeObject, is_deleting, key_of
from controller_manager.client.errors import NotFound
from controller_manager.control.pods_by_claim import PODS_BY_CLAIM, claim_names
from controller_manager.control.protection import Protection
from controller_manager.controllers.storage.claimprotection.live_pods import (
    LivePods,
)
from controller_manager.controllers.storage.claimprotection.use import (
    user_among,
    uses,
)
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome, Requeue
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps, Watch

FINALIZER: Final = "kubernetes.io/pvc-protection"

_PROTECTION: Final = Protection(FINALIZER)
WAITING: Final = _PROTECTION.waiting

_OUTDATED: Final = 1.0
"""Seconds until the next sync of a claim of which the cache shows an older state."""


def is_settled(claim: KubeObject) -> bool:
    """Tell whether nothing is to be done for a claim, whether a pod uses it or not."""
    return _PROTECTION.is_settled(claim)


def _is_same(cached: KubeObject, stored: KubeObject) -> bool:
    """Tell whether two claims are one, and both or neither are being deleted."""
    return cached.metadata.uid == stored.metadata.uid and (
        is_deleting(cached) == is_deleting(stored)
    )


def _needs_work(claim: PersistentVolumeClaim) -> bool:
    return not is_settled(claim)


class ClaimProtectionReconciler(Reconciler[PersistentVolumeClaim]):
    """Keeps deleted claims until no pod uses them.

    Only the metadata of claims is read from the cache. Before the finalizer is
    removed, the pods are listed from the API server: a cache may not show yet that a
    pod was bound.
    """

    queue_name = "pvcprotection"

    def _released(self, pod: Pod) -> Iterable[str]:
        """Return the deleted claims that a pod names and does not use."""
        return (
            key_of(claim) for claim in self._deleted_of(pod) if not uses(pod, claim)
        )

    def _named(self, pod: Pod) -> Iterable[str]:
        """Return the deleted claims that a pod names."""
        return map(key_of, self._deleted_of(pod))

    watches: ClassVar[Sequence[Watch]] = (
        For(CLAIMS, when=_needs_work),
        Maps(PODS, _released, on=("add", "update")),
        Maps(PODS, _named, on=("delete",)),
    )

    def __init__(self, context: ControllerContext) -> None:
        """Take the context; index the pods by their claims."""
        super().__init__(context)
        self._pods = context.lister(PODS, PODS_BY_CLAIM)
        waiting = context.lister(CLAIMS, WAITING)
        self._live_pods = LivePods(context, partial(waiting.by_index, WAITING))

    async def reconcile(self, claim: PersistentVolumeClaim) -> Outcome:
        """Give the claim its finalizer, or take it if no pod uses the claim."""
        if is_settled(claim):
            return DONE
        if is_deleting(claim) and (user := await self._user_of(claim)) is not None:
            self.logger.v(2).info(
                "Keeping PVC because it is being used",
                PVC=key_of(claim),
                pod=key_of(user),
            )
            return DONE
        return await self._set_finalizers(claim)

    async def _user_of(self, claim: PersistentVolumeClaim) -> Pod | None:
        cached = self._pods.by_index(PODS_BY_CLAIM, key_of(claim))
        if (found := user_among(cached, claim)) is not None:
            return found
        found = await self._live_pods.user_of(claim)
        if not len(self.queue):
            self._live_pods.forget()
        return found

    async def _set_finalizers(self, cached: PersistentVolumeClaim) -> Outcome:
        """Write the finalizers, if the decision holds for the stored claim.

        The users were looked for only if the cached claim is being deleted. Upstream
        writes the cached claim, so the API server refuses one that has changed.
        """
        namespace, name = cached.metadata.namespace, cached.metadata.name
        try:
            claim = await self.client.get(CLAIMS, namespace, name)
        except NotFound:
            return DONE
        if not _is_same(cached, claim):
            return Requeue(_OUTDATED, "the cache shows an older claim")
        if is_settled(claim):
            return DONE
        await _PROTECTION.settle(self.client, CLAIMS, claim)
        self.logger.v(3).info(
            "Changed the finalizers of PVC",
            PVC=key_of(claim),
            finalizers=_PROTECTION.finalizers_of(claim),
        )
        return DONE

    def _deleted_of(self, pod: Pod) -> Iterator[PersistentVolumeClaim]:
        for name in claim_names(pod):
            claim = self.objects.get(pod.metadata.namespace, name)
            if claim is not None and _needs_work(claim) and is_deleting(claim):
                yield claim
