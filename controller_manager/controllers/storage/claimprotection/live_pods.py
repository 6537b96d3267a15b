"""The pods of a namespace that use claims, as the API server has them now."""

from collections import defaultdict
from collections.abc import Sequence

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import KubeObject
from controller_manager.control.live_use import (
    LONGEST_USE,
    Waiting,
    listed,
    uids_of,
)
from controller_manager.control.pods_by_claim import claim_names
from controller_manager.controllers.storage.claimprotection.use import (
    user_among,
)
from controller_manager.runtime.context import ControllerContext


class LivePods:
    """Lists the pods of a namespace, once for many claims that are deleted at a time.

    That no pod uses a claim may be read from any list that began when the cache showed
    the deletion of the claim: no kubelet starts a pod that is bound after it. Upstream
    shares a list among the claims of a namespace that wait in its queue. A list serves
    for `LONGEST_USE`, so that one of before a watch stalled decides nothing.
    """

    def __init__(self, context: ControllerContext, waiting: Waiting) -> None:
        """Take the context of a controller that watches pods; list nothing yet."""
        self._context = context
        self._waiting = waiting
        self.forget()

    def forget(self) -> None:
        """Drop the pods of the last list."""
        self._served: frozenset[str] = frozenset()
        """The uids of the claims that the last list serves."""
        self._pods: dict[str, Sequence[Pod]] = {}
        self._ended = 0.0
        """When the last list ended, on the monotonic clock."""

    async def user_of(self, claim: KubeObject) -> Pod | None:
        """Return a pod that uses a claim which is being deleted, `None` for none.

        Raises SyncError if the API server answers with a list that is older than the
        cache.
        """
        if self._context.clock.monotonic() - self._ended >= LONGEST_USE:
            self.forget()
        if claim.metadata.uid in self._served and self._found(claim) is None:
            return None
        await self._list(claim)
        return self._found(claim)

    def _found(self, claim: KubeObject) -> Pod | None:
        return user_among(self._pods.get(claim.metadata.name, ()), claim)

    async def _list(self, claim: KubeObject) -> None:
        """List the pods of the namespace; keep those that have a node and claims."""
        self.forget()
        namespace = claim.metadata.namespace
        served = uids_of((claim, *self._waiting(namespace)))
        found: defaultdict[str, list[Pod]] = defaultdict(list)
        async for pod in listed(self._context, PODS, namespace):
            if pod.spec.node_name:
                for name in claim_names(pod):
                    found[name].append(pod)
        self._served, self._pods = served, dict(found)
        self._ended = self._context.clock.monotonic()
