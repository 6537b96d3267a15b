"""The pods of a namespace that use claims, as the API server has them now."""

from collections import defaultdict

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import KubeObject
from controller_manager.control.live_use import SharedLists, Waiting, listed
from controller_manager.control.pods_by_claim import claim_names
from controller_manager.controllers.storage.claimprotection.use import (
    user_among,
)
from controller_manager.runtime.context import ControllerContext


class LivePods:
    """Lists the pods of namespaces, once for many claims that are deleted at a time.

    That no pod uses a claim may be read from any list that began when the cache showed
    the deletion of the claim: no kubelet starts a pod that is bound after it. Upstream
    shares a list among the claims of a namespace that wait in its queue. A list serves
    for `LONGEST_USE`, so that one of before a watch stalled decides nothing.
    """

    def __init__(self, context: ControllerContext, waiting: Waiting) -> None:
        """Take the context of a controller that watches pods; list nothing yet."""
        self._context = context
        self._lists: SharedLists[dict[str, list[Pod]]] = SharedLists(
            waiting, context.clock
        )

    def forget(self) -> None:
        """Drop the pods of the last lists."""
        self._lists.forget()

    async def user_of(self, claim: KubeObject) -> Pod | None:
        """Return a pod that uses a claim which is being deleted, `None` for none.

        Raises SyncError if the API server answers with a list that is older than the
        cache.
        """
        name, known = claim.metadata.name, self._lists.found_for(claim)
        if known is not None and user_among(known.get(name, ()), claim) is None:
            return None
        found = await self._list(claim)
        return user_among(found.get(name, ()), claim)

    async def _list(self, claim: KubeObject) -> dict[str, list[Pod]]:
        """List the pods of the namespace; keep those that have a node and claims."""
        namespace, served = claim.metadata.namespace, self._lists.serving(claim)
        found: defaultdict[str, list[Pod]] = defaultdict(list)
        async for pod in listed(self._context, PODS, namespace):
            if pod.spec.node_name:
                for name in claim_names(pod):
                    found[name].append(pod)
        self._lists.keep(namespace, served, dict(found))
        return found
