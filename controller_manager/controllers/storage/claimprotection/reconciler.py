"""Adds and removes the finalizer of claims (pvc_protection_controller.go).

If its feature gate is on, it keeps their condition Unused, too.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import ClassVar, Final

from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import KubeObject, is_deleting, key_of
from controller_manager.client.errors import NotFound, is_about
from controller_manager.control.pods_by_claim import PODS_BY_CLAIM, claim_names
from controller_manager.control.protection import Protection
from controller_manager.controllers.storage.claimprotection.conditions import (
    is_marked,
    is_tracked,
    marked,
    refers,
)
from controller_manager.controllers.storage.claimprotection.options import UNUSED_SINCE
from controller_manager.controllers.storage.claimprotection.pods import (
    LivePods,
    user_among,
    uses,
)
from controller_manager.informers.changes import DependsOn
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome, Requeue
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps, Watch
from controller_manager.runtime.worker import Workers

FINALIZER: Final = "kubernetes.io/pvc-protection"

_PROTECTION: Final = Protection(FINALIZER)
WAITING: Final = _PROTECTION.waiting

_OUTDATED: Final = 1.0
"""Seconds until the next sync of a claim whose cached state is old."""


_USE: Final = DependsOn(
    "metadata.deletionGracePeriodSeconds",
    "metadata.deletionTimestamp",
    "spec.nodeName",
    reading=("spec.volumes",),
)
"""The parts of a pod by which it uses its claims."""

_USE_AND_END: Final = DependsOn(*_USE.parts, "status.phase", reading=_USE.reading)
"""The parts of a pod by which it refers to its claims."""


def is_settled(claim: KubeObject) -> bool:
    """Tell whether a claim needs no write, used or not."""
    return _PROTECTION.is_settled(claim)


def _is_same(cached: KubeObject, stored: KubeObject) -> bool:
    """Tell whether two versions of a claim agree on its uid and its deletion."""
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
        Maps(PODS, _released, on=("add", "update"), depends_on=_USE),
        Maps(PODS, _named, on=("delete",)),
    )

    def __init__(self, context: ControllerContext) -> None:
        """Take the context; index the pods by their claims."""
        super().__init__(context)
        self._pods = context.lister(PODS, PODS_BY_CLAIM)
        waiting = context.lister(CLAIMS, WAITING)
        self._live_pods = LivePods(context, partial(waiting.by_index, WAITING))

    async def reconcile(self, claim: PersistentVolumeClaim) -> Outcome:
        """Add the finalizer, or remove it if no pod uses the deleted claim."""
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


def _needs_sync(claim: PersistentVolumeClaim) -> bool:
    return is_tracked(claim) or not is_settled(claim)


class UnusedClaimReconciler(ClaimProtectionReconciler):
    """Keeps deleted claims, and sets the condition Unused of others.

    The pods for the condition are read from the cache. A change of a pod adds only the
    claims of the pod whose condition it contradicts.
    """

    def _contradicted(self, pod: Pod) -> Iterable[str]:
        """Return the claims of a pod whose condition contradicts the pod."""
        return self._claims_without_mark(pod, unused=not refers(pod))

    def _left(self, pod: Pod) -> Iterable[str]:
        """Return the claims of a deleted pod that are not marked as unused."""
        return self._claims_without_mark(pod, unused=True)

    watches: ClassVar[Sequence[Watch]] = (
        For(CLAIMS, when=_needs_sync),
        *ClaimProtectionReconciler.watches[1:],
        Maps(PODS, _contradicted, on=("add", "update"), depends_on=_USE_AND_END),
        Maps(PODS, _left, on=("delete",)),
    )

    async def reconcile(self, claim: PersistentVolumeClaim) -> Outcome:
        """Write the finalizer of the claim if needed, otherwise its condition."""
        if not is_settled(claim):
            # The event of this write adds the claim again, for the condition.
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
            await self.client.update_for_metadata(CLAIMS, new, "status")
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


def init_claim_protection(context: ControllerContext) -> Workers:
    """Return the workers of the controller, with the condition if its gate is on."""
    if context.config.features.is_enabled(UNUSED_SINCE):
        return UnusedClaimReconciler.make(context)
    return ClaimProtectionReconciler.make(context)
