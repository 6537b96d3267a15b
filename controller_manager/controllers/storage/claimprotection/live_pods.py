"""The pods of a namespace that use claims, as the API server has them now."""

from collections import defaultdict
from collections.abc import Sequence

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import KubeObject, key_of, resource_version_number
from controller_manager.client.client import Client
from controller_manager.control.pods_by_claim import claim_names
from controller_manager.controllers.storage.claimprotection.use import (
    user_among,
)
from controller_manager.runtime.outcome import SyncError


class LivePods:
    """Lists the pods of a namespace, once for many claims that are deleted at a time.

    That no pod uses a claim may be read from any list that is as new as the claim's
    deletion: no kubelet starts a pod that is bound after it. Upstream shares a list
    among the claims of a namespace that wait in its queue.
    """

    def __init__(self, client: Client) -> None:
        """Take the client; nothing is listed yet."""
        self._client = client
        self.forget()

    def forget(self) -> None:
        """Drop the pods of the last list."""
        self._namespace = ""
        self._version = 0
        self._pods: dict[str, Sequence[Pod]] = {}

    async def user_of(self, claim: KubeObject) -> Pod | None:
        """Return a pod that uses a claim which is being deleted, `None` for none.

        Raises SyncError if the API server answers with a list that is older than the
        claim.
        """
        namespace = claim.metadata.namespace
        deleted = resource_version_number(claim.metadata.resource_version)
        is_as_new = self._namespace == namespace and self._version >= deleted
        if is_as_new and self._found(claim) is None:
            return None
        await self._list(namespace)
        if self._version < deleted:
            msg = f"the API server's pods are older than the claim {key_of(claim)}"
            raise SyncError(msg)
        return self._found(claim)

    def _found(self, claim: KubeObject) -> Pod | None:
        return user_among(self._pods.get(claim.metadata.name, ()), claim)

    async def _list(self, namespace: str) -> None:
        """List the pods of a namespace; keep those that have a node and claims."""
        self.forget()
        found: defaultdict[str, list[Pod]] = defaultdict(list)
        version = 0
        async for page in self._client.list_all(PODS, namespace):
            version = resource_version_number(page.resource_version)
            for pod in page.items:
                if pod.spec.node_name:
                    for name in claim_names(pod):
                        found[name].append(pod)
        self._namespace, self._version, self._pods = namespace, version, dict(found)
