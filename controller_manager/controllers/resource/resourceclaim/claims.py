"""Releases and deletes claims whose consumers are gone (syncClaim)."""

from contextlib import suppress
from typing import Final

from controller_manager.api.core.v1 import PODS
from controller_manager.api.dynamicresources.v1 import (
    RESOURCE_CLAIMS,
    ClaimConsumer,
    ResourceClaim,
)
from controller_manager.api.meta import is_deleting
from controller_manager.api.owners import controller_of
from controller_manager.api.resource import AnyResource
from controller_manager.api.scheduling.v1alpha2 import POD_GROUPS
from controller_manager.client.errors import NotFound, is_about
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Done, Outcome

from .apply import ClaimWriter
from .consumers import POD, POD_GROUP, is_done
from .pod_groups import PodGroups
from .reservations import (
    Reserver,
    is_left_over,
    other_finalizers,
    release,
    reserved_for,
)
from .tracker import DeletedPods

_PATIENCE: Final = 10.0
"""Seconds after which no scheduler is still allocating a claim that has the finalizer.
"""

_SHORTEST_WAIT: Final = 0.001


class ClaimSync:
    """Removes consumers that are gone from a claim; deletes a claim with its pod."""

    def __init__(
        self,
        context: ControllerContext,
        reserver: Reserver,
        groups: PodGroups,
        gone: DeletedPods,
    ) -> None:
        self._client = context.client
        self._logger = context.logger
        self._pods = context.lister(PODS)
        self._claims = context.lister(RESOURCE_CLAIMS)
        self._reserver = reserver
        self._groups = groups
        self._gone = gone
        self._writer = ClaimWriter(context)
        self._clock = context.clock
        self._left_over: dict[str, tuple[str, float]] = {}
        """The version of each claim with a superfluous finalizer, and the time it was
        seen.
        """

    async def sync(self, key: str) -> Outcome:
        """Release, and perhaps delete, the claim with this key."""
        self._reserver.forget(key)
        claim = self._claims.by_key(key)
        if claim is None or not is_left_over(claim):
            self._left_over.pop(key, None)
        if claim is None:
            return DONE
        if is_left_over(claim):
            return await self._remove_finalizer(key, claim)
        reserved = reserved_for(claim)
        gone = {each.uid for each in reserved if await self._is_gone(claim, each)}
        loss = release(claim, lambda consumer: consumer.uid in gone)
        # The claim may be gone with its last finalizer.
        with suppress(NotFound):
            changed = claim
            if loss.status is not None:
                changed = await self._writer.set_status(claim, loss.status)
            if loss.drops_finalizer:
                await self._writer.set_finalizers(changed, other_finalizers(changed))
            if len(gone) == len(reserved) and await self._is_superfluous(claim):
                await self._writer.delete(claim)
                self._logger.v(5).info("Deleted unused generated claim", claim=key)
        return DONE

    async def _remove_finalizer(self, key: str, claim: ResourceClaim) -> Outcome:
        """Remove the finalizer of a claim that is not allocated, after a delay.

        The delay protects a scheduler that is about to allocate the claim.
        """
        now, version = self._clock.monotonic(), claim.metadata.resource_version
        known, since = self._left_over.get(key, ("", now))
        if known != version:
            self._left_over[key] = (version, now)
            return Done(_PATIENCE)
        if now - since < _PATIENCE:
            return Done(max(_PATIENCE - (now - since), _SHORTEST_WAIT))
        with suppress(NotFound):
            await self._writer.set_finalizers(claim, other_finalizers(claim))
        return DONE

    async def _is_gone(self, claim: ResourceClaim, consumer: ClaimConsumer) -> bool:
        """Tell whether a consumer is gone, or does not need the claim any more.

        A consumer that is neither a pod nor a group of pods is never gone: this
        controller does not know its kind.
        """
        kind = (consumer.api_group, consumer.resource)
        namespace = claim.metadata.namespace
        if kind == POD_GROUP and self._groups.is_enabled:
            group = self._groups.find(namespace, consumer.name)
            if group is not None and group.metadata.uid == consumer.uid:
                return False
            return not await self._is_stored(
                POD_GROUPS, namespace, consumer.name, consumer.uid
            )
        if kind != POD:
            return False
        if consumer.uid in self._gone:
            return True
        pod = self._pods.get(namespace, consumer.name)
        if pod is not None and pod.metadata.uid == consumer.uid:
            return is_done(pod)
        return not await self._is_stored(PODS, namespace, consumer.name, consumer.uid)

    async def _is_stored(
        self, resource: AnyResource, namespace: str, name: str, uid: str
    ) -> bool:
        """Tell whether the API server has a consumer or owner that the cache lacks.

        A scheduler may have reserved the claim for a pod that is newer than the cache,
        even if the cache shows an older pod of the same name. Upstream takes the claim
        from such a pod.
        """
        try:
            found = await self._client.get(resource, namespace, name)
        except NotFound as error:
            if not is_about(error, name):
                raise
            return False
        return bool(found.metadata.uid == uid)

    async def _is_superfluous(self, claim: ResourceClaim) -> bool:
        """Tell whether a claim was created for a pod that was replaced or is done.

        The garbage collector deletes a claim with its pod, but the pod may stay for
        long.
        """
        owner = controller_of(claim)
        if owner is None or is_deleting(claim):
            return False
        namespace, name = claim.metadata.namespace, owner.name
        if (owner.api_version, owner.kind) == (PODS.api_version, PODS.kind):
            pod = self._pods.get(namespace, name)
            if pod is None:
                return False
            return owner.uid in self._gone or (
                pod.metadata.uid == owner.uid and is_done(pod)
            )
        if (owner.api_version, owner.kind) == (POD_GROUPS.api_version, POD_GROUPS.kind):
            group = self._groups.find(namespace, name)
            if group is None or group.metadata.uid == owner.uid:
                return False
            return not await self._is_stored(POD_GROUPS, namespace, name, owner.uid)
        return False
