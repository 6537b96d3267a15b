"""The pods that use a claim (podUsesPVC of pvc_protection_controller.go)."""

from collections import defaultdict
from collections.abc import Callable, Iterable

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import KubeObject, is_controlled_by, is_deleting
from controller_manager.api.pods import has_stopped
from controller_manager.control.pod_indexes import claim_name, claim_names
from controller_manager.control.protection import SharedLists, Waiting, listed
from controller_manager.runtime.context import ControllerContext

Find = Callable[[Iterable[Pod], KubeObject], Pod | None]
"""Returns one of the pods that uses a claim, `None` if none of them does."""


def user_among(pods: Iterable[Pod], claim: KubeObject) -> Pod | None:
    """Return a pod that uses a claim, `None` if none of them does."""
    return next((each for each in pods if uses(each, claim)), None)


def uses(pod: Pod, claim: KubeObject) -> bool:
    """Tell whether a pod of the claim's namespace uses it; an ended pod does.

    A pod without a node does not: no kubelet starts a pod whose claim is being deleted.
    """
    if not pod.spec.node_name or (is_controlled_by(claim, pod) and _is_done(pod)):
        return False
    return _has(pod, claim)


def referrer_among(pods: Iterable[Pod], claim: KubeObject) -> Pod | None:
    """Return a pod that refers to a claim, `None` if none of them does."""
    return next((each for each in pods if refers(each, claim)), None)


def refers(pod: Pod, claim: KubeObject) -> bool:
    """Tell whether a pod of the claim's namespace refers to it; an ended pod does not.

    A pod without a node does. Upstream: podUsesPVCForUnusedSince.
    """
    return not has_stopped(pod) and _has(pod, claim)


def _has(pod: Pod, claim: KubeObject) -> bool:
    """Tell whether a pod has a volume of a claim, and owns that of an ephemeral one."""
    owns = is_controlled_by(claim, pod)
    return any(
        claim_name(pod, volume) == claim.metadata.name
        and (volume.persistent_volume_claim is not None or owns)
        for volume in pod.spec.volumes or ()
    )


def _is_done(pod: Pod) -> bool:
    """Tell whether the kubelet is done with a pod, which needs no own claims then.

    In the foreground, a pod exists until its own claims are gone: those of ephemeral
    volumes, and those of a stateful set (for these upstream waits for ever).
    """
    return is_deleting(pod) and pod.metadata.deletion_grace_period_seconds == 0


class LivePods:
    """Lists the pods of namespaces, once for many claims that are looked at together.

    A list shows that no pod uses a claim if the cache showed the claim's deletion
    before the list began: no kubelet starts a pod that is bound later.
    """

    def __init__(
        self, context: ControllerContext, waiting: Waiting, find: Find = user_among
    ) -> None:
        self._context = context
        self._find = find
        self._lists = SharedLists[dict[str, list[Pod]]](waiting, context.clock)

    def forget(self) -> None:
        """Drop the pods of the last lists."""
        self._lists.forget()

    async def user_of(self, claim: KubeObject) -> Pod | None:
        """Return a pod that uses a claim, or `None`; SyncError for an old list."""
        name, known = claim.metadata.name, self._lists.found_for(claim)
        if known is not None and self._find(known.get(name, ()), claim) is None:
            return None
        found = await self._list(claim)
        return self._find(found.get(name, ()), claim)

    async def _list(self, claim: KubeObject) -> dict[str, list[Pod]]:
        namespace, served = claim.metadata.namespace, self._lists.serving(claim)
        found: defaultdict[str, list[Pod]] = defaultdict(list)
        async for pod in listed(self._context, PODS, namespace):
            for name in claim_names(pod):
                found[name].append(pod)
        self._lists.keep(namespace, served, dict(found))
        return found
