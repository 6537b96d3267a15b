"""Gives a pod its claims (syncPod of controller.go)."""

from controller_manager.api.core.v1 import PODS, Pod, PodResourceClaim
from controller_manager.api.dynamicresources.v1 import (
    RESOURCE_CLAIMS,
    ClaimConsumer,
    ResourceClaim,
)
from controller_manager.api.meta import is_deleting
from controller_manager.client.errors import (
    APIError,
    NotFound,
    ProtocolError,
    TransportError,
    is_about,
)
from controller_manager.client.events import WARNING
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome

from .consumers import Consumer, group_name, is_done, of_pod, shares
from .create import ClaimCreator, ClaimNotCreated, event_text
from .indexes import owner_uid
from .pod_groups import PodGroups
from .reservations import Reserver, reserve


class PodSync:
    """Creates the claims of a pod, and reserves them after the pod has a node.

    A scheduler reserves claims itself. Pods that were bound without a scheduler need
    this controller.
    """

    def __init__(
        self,
        context: ControllerContext,
        creator: ClaimCreator,
        reserver: Reserver,
        groups: PodGroups,
    ) -> None:
        self._client = context.client
        self._recorder = context.recorder
        self._pods = context.lister(PODS)
        self._claims = context.lister(RESOURCE_CLAIMS)
        self._creator = creator
        self._groups = groups
        self._reserver = reserver

    def needs_sync(self, pod: Pod) -> bool:
        """Tell whether a pod lacks a claim or a reservation.

        A pod that has ended lacks nothing. Upstream creates and reserves its claims
        again each time that they were removed.
        """
        if is_deleting(pod) or is_done(pod):
            return False
        consumer = of_pod(pod)
        return any(self._lacks(pod, consumer, each) for each in consumer.wanted)

    def _lacks(self, pod: Pod, consumer: Consumer, entry: PodResourceClaim) -> bool:
        name = consumer.name_of(entry)
        is_made = entry.resource_claim_template_name is not None
        is_shared = is_made and self._is_shared(pod, entry)
        if is_shared and self._shared_claim(pod, entry) not in (None, name):
            return True
        if not consumer.is_known(entry):
            return not is_shared
        claim = self._claims.get(consumer.namespace, name) if name else None
        if claim is None:
            return bool(name) and is_made and not is_shared
        return self._reservation(pod, entry, claim) is not None

    async def sync(self, key: str) -> Outcome:
        """Create and reserve the claims of the pod with this key."""
        pod = self._pods.by_key(key)
        if pod is None or is_deleting(pod) or not self.needs_sync(pod):
            return DONE
        stored = await self._read(pod) if self._must_read(pod) else pod
        if stored is not None:
            await self._give_claims(stored)
        return DONE

    def _must_read(self, pod: Pod) -> bool:
        """Tell whether to read a pod from the API server before creating its claims.

        Most pods need claims before they have a node: this saves a request for them.
        """
        consumer = of_pod(pod)
        if all(map(consumer.is_known, consumer.wanted)):
            return False
        return bool(pod.spec.node_name) or self._creator.must_list(consumer)

    async def _give_claims(self, pod: Pod) -> None:
        consumer = of_pod(pod)
        names: dict[str, str | None] = {}
        for each in consumer.wanted:
            name = await self._claim_for(pod, consumer, each)
            if name is not None and name != consumer.name_of(each):
                names[each.name] = name
        if names:
            await self._creator.write_names(consumer, names)
        if pod.spec.node_name:
            await self._reserve(pod, {**consumer.status_names, **names})

    async def _read(self, cached: Pod) -> Pod | None:
        """Return a pod as the API server has it, `None` if it needs no claims now.

        An old cache shows neither the end of a pod, nor another pod of its name, nor
        the names of claims that were created already.
        """
        metadata = cached.metadata
        try:
            pod = await self._client.get(PODS, metadata.namespace, metadata.name)
        except NotFound as error:
            if not is_about(error, metadata.name):
                raise
            return None
        is_same = pod.metadata.uid == metadata.uid
        return pod if is_same and not is_deleting(pod) and not is_done(pod) else None

    async def _claim_for(
        self, pod: Pod, consumer: Consumer, entry: PodResourceClaim
    ) -> str | None:
        """Return the name of an entry's claim, `None` if it has none (yet)."""
        if entry.resource_claim_name is not None:
            return entry.resource_claim_name
        if (
            entry.name in consumer.status_names
            and consumer.status_names[entry.name] is None
        ):
            return None
        if self._is_shared(pod, entry):
            return self._shared_claim(pod, entry) or consumer.name_of(entry)
        try:
            return await self._creator.make(consumer, entry)
        except (ClaimNotCreated, APIError, ProtocolError, TransportError) as error:
            message = f"PodResourceClaim {entry.name}: {event_text(error)}"
            reason = "FailedResourceClaimCreation"
            self._recorder.event(PODS, pod, WARNING, reason, message)
            raise

    async def _reserve(self, pod: Pod, names: dict[str, str | None]) -> None:
        async def needs_it() -> bool:
            return await self._read(pod) is not None

        for entry in pod.spec.resource_claims or ():
            name = entry.resource_claim_name or names.get(entry.name)
            claim = self._claims.get(pod.metadata.namespace, name) if name else None
            consumer = None
            if claim is not None:
                consumer = self._reservation(pod, entry, claim)
            if claim is not None and consumer is not None:
                await self._reserver.reserve(claim, consumer, needs_it)

    def _reservation(
        self, pod: Pod, entry: PodResourceClaim, claim: ResourceClaim
    ) -> ClaimConsumer | None:
        """Return the consumer to reserve a claim for, `None` if it is not reserved.

        A claim that was created for another consumer is not reserved.
        """
        group = self._groups.of(pod)
        consumer = of_pod(pod)
        uids = {consumer.uid} if group is None else {consumer.uid, group.uid}
        is_made = entry.resource_claim_template_name is not None
        if not pod.spec.node_name or (is_made and owner_uid(claim) not in uids):
            return None
        user = group if group is not None and shares(group, entry) else consumer
        return None if reserve(claim, user.reference) is None else user.reference

    def _is_shared(self, pod: Pod, entry: PodResourceClaim) -> bool:
        """Tell whether a claim belongs to the pod's group instead of to the pod.

        While the group is not cached, the claim counts as one of the group, so that no
        claim is created.
        """
        if not self._groups.is_enabled or not group_name(pod):
            return False
        group = self._groups.of(pod)
        return group is None or shares(group, entry)

    def _shared_claim(self, pod: Pod, entry: PodResourceClaim) -> str | None:
        group = self._groups.of(pod)
        return None if group is None else self._creator.claim_name_for(group, entry)
