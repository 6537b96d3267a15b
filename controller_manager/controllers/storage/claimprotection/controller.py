"""Adds and removes the finalizer of claims (pvc_protection_controller.go).

With the gate PersistentVolumeClaimUnusedSinceTime, it sets their condition Unused, too.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import ClassVar, Final

from msgspec.structs import replace

from controller_manager.api.core import claims
from controller_manager.api.core.claims import CLAIMS, PersistentVolumeClaim
from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.json_objects import with_fields
from controller_manager.api.meta import KubeObject, is_deleting, key_of
from controller_manager.api.scalars import format_time
from controller_manager.client.rest.errors import NotFound, is_about
from controller_manager.control.pod_indexes import PODS_BY_CLAIM, claim_names
from controller_manager.control.protection import Protection
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.store import Index
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome, Requeue
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps, Watch
from controller_manager.runtime.worker import Workers

from . import UNUSED_SINCE
from .pods import LivePods, referrer_among, refers, user_among, uses

UNUSED: Final = "Unused"


def is_tracked(claim: PersistentVolumeClaim) -> bool:
    """Tell whether a claim needs the condition: it is not being deleted."""
    return not is_deleting(claim)


def is_marked(claim: PersistentVolumeClaim, *, unused: bool) -> bool:
    """Tell whether a claim is marked as unused, or as used: any status but True."""
    return any(
        each.type == UNUSED and (each.status == "True") == unused
        for each in claim.status.conditions or ()
    )


def marked(
    claim: PersistentVolumeClaim, now: datetime, *, unused: bool
) -> PersistentVolumeClaim:
    """Return a claim with a condition that says so; it had another or none."""
    pods = "No pods are" if unused else "A pod is"
    new = claims.ClaimCondition(
        type=UNUSED,
        status="True" if unused else "False",
        reason="NoPodsUsingPVC" if unused else "PodUsingPVC",
        message=f"{pods} currently referencing this PVC",
        last_transition_time=format_time(now),
    )
    old = claim.status.conditions or ()
    conditions = tuple(new if each.type == UNUSED else each for each in old)
    if new not in conditions:
        conditions = (*conditions, new)
    raw = with_fields(claim.raw_status, {"conditions": conditions})
    return replace(claim, raw_status=raw)


def _namespace_of_unmarked(claim: PersistentVolumeClaim) -> Iterable[str]:
    may_become_unused = is_tracked(claim) and not is_marked(claim, unused=True)
    return (claim.metadata.namespace,) if may_become_unused else ()


UNMARKED: Final = Index(
    "not marked as unused",
    _namespace_of_unmarked,
    lambda old, new: _namespace_of_unmarked(old) == _namespace_of_unmarked(new),
)
"""The claims that may become unused, by their namespace."""


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

_USE_AND_END: Final = DependsOn(
    *_USE.parts,
    *("status.phase", "status.containerStatuses"),
    *("status.initContainerStatuses", "status.ephemeralContainerStatuses"),
    reading=_USE.reading,
)
"""The parts of a pod by which it refers to its claims."""


def is_settled(claim: KubeObject) -> bool:
    """Tell whether a claim needs no write, used or not."""
    return _PROTECTION.is_settled(claim)


def _is_same(cached: KubeObject, stored: KubeObject) -> bool:
    return cached.metadata.uid == stored.metadata.uid and (
        is_deleting(cached) == is_deleting(stored)
    )


class ClaimProtectionReconciler(Reconciler[PersistentVolumeClaim]):
    """Keeps deleted claims until no pod uses them.

    Before the finalizer is removed, the pods are listed from the API server: a cache
    may not show yet that a pod was bound.
    """

    queue_name = "pvcprotection"

    def _released(self, pod: Pod) -> Iterable[str]:
        found = self._deleted_of(pod)
        return (key_of(claim) for claim in found if not uses(pod, claim))

    def _named(self, pod: Pod) -> Iterable[str]:
        return map(key_of, self._deleted_of(pod))

    watches: ClassVar[Sequence[Watch]] = (
        For(CLAIMS, when=lambda claim: not is_settled(claim)),
        Maps(PODS, _released, on=("add", "update"), depends_on=_USE),
        Maps(PODS, _named, on=("delete",)),
    )

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = context.lister(PODS, PODS_BY_CLAIM)
        waiting = context.lister(CLAIMS, WAITING)
        self._live_pods = LivePods(context, partial(waiting.by_index, WAITING))

    async def reconcile(self, claim: PersistentVolumeClaim) -> Outcome:
        """Add the finalizer, or remove it if no pod uses the deleted claim."""
        if is_settled(claim):
            return DONE
        if is_deleting(claim) and (user := await self._user_of(claim)) is not None:
            text = "Keeping PVC because it is being used"
            self.logger.v(2).info(text, PVC=key_of(claim), pod=key_of(user))
            return DONE
        return await self._set_finalizers(claim)

    async def _user_of(self, claim: PersistentVolumeClaim) -> Pod | None:
        cached = self._pods.by_index(PODS_BY_CLAIM, key_of(claim))
        if (found := user_among(cached, claim)) is not None:
            return found
        return await self._listed_user_of(claim, self._live_pods)

    async def _listed_user_of(
        self, claim: PersistentVolumeClaim, pods: LivePods
    ) -> Pod | None:
        found = await pods.user_of(claim)
        if not len(self.queue):
            pods.forget()
        return found

    async def _set_finalizers(self, cached: PersistentVolumeClaim) -> Outcome:
        """Write the finalizers, if the decision holds for the stored claim.

        Users were looked for only if the cached claim is being deleted.
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

    def _claims_of(self, pod: Pod) -> Iterator[PersistentVolumeClaim]:
        for name in claim_names(pod):
            claim = self.objects.get(pod.metadata.namespace, name)
            if claim is not None:
                yield claim

    def _deleted_of(self, pod: Pod) -> Iterator[PersistentVolumeClaim]:
        deleted = filter(is_deleting, self._claims_of(pod))
        return (claim for claim in deleted if not is_settled(claim))


class UnusedClaimReconciler(ClaimProtectionReconciler):
    """Keeps deleted claims, and sets the condition Unused of others.

    Before a claim is marked as unused, the pods are listed from the API server.
    """

    def _contradicted(self, pod: Pod) -> Iterable[str]:
        """Return the claims of a pod whose condition contradicts the pod."""
        found = filter(is_tracked, self._claims_of(pod))
        return (
            key_of(claim)
            for claim in found
            if not is_marked(claim, unused=not refers(pod, claim))
        )

    def _left(self, pod: Pod) -> Iterable[str]:
        found = filter(is_tracked, self._claims_of(pod))
        return (key_of(each) for each in found if not is_marked(each, unused=True))

    watches: ClassVar[Sequence[Watch]] = (
        For(CLAIMS, when=lambda claim: is_tracked(claim) or not is_settled(claim)),
        *ClaimProtectionReconciler.watches[1:],
        Maps(PODS, _contradicted, on=("add", "update"), depends_on=_USE_AND_END),
        Maps(PODS, _left, on=("delete",)),
    )

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        unmarked = context.lister(CLAIMS, UNMARKED)
        self._live_referrers = LivePods(
            context, partial(unmarked.by_index, UNMARKED), referrer_among
        )

    async def reconcile(self, claim: PersistentVolumeClaim) -> Outcome:
        """Write the condition of the claim if needed, and then its finalizer."""
        if is_tracked(claim):
            await self._mark(claim)
        return await super().reconcile(claim)

    async def _mark(self, claim: PersistentVolumeClaim) -> None:
        if (unused := await self._contradicting(claim)) is None:
            return
        new = marked(claim, self.clock.now(), unused=unused)
        try:
            await self.client.update_for_metadata(CLAIMS, new, "status")
        except NotFound as error:
            if not is_about(error, claim.metadata.name):
                raise

    async def _contradicting(self, claim: PersistentVolumeClaim) -> bool | None:
        """Tell whether a claim is unused, `None` if its condition says the same.

        If the cache does not show a pod yet, that pod adds the claim again.
        """
        cached = self._pods.by_index(PODS_BY_CLAIM, key_of(claim))
        unused = referrer_among(cached, claim) is None
        if is_marked(claim, unused=unused):
            return None
        if unused:
            found = await self._listed_user_of(claim, self._live_referrers)
            unused = found is None
        return None if is_marked(claim, unused=unused) else unused


def init_claim_protection(context: ControllerContext) -> Workers:
    """Return the workers of the controller, with the condition if its gate is on."""
    if context.config.features.is_enabled(UNUSED_SINCE):
        return UnusedClaimReconciler.make(context)
    return ClaimProtectionReconciler.make(context)
