"""The data of one sync of a daemon set, as an immutable value."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from controller_manager.api.apps.v1 import DaemonSet
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting, labels_of
from controller_manager.api.pods import is_available, is_terminal
from controller_manager.control.history.names import POD_REVISION_LABEL
from controller_manager.controllers.apps.daemonset.placement import Fit
from controller_manager.controllers.apps.daemonset.targets import target_of

_NONE: Sequence[Pod] = ()


class View(Struct, frozen=True):
    """A daemon set, what each node is to it, and its pods by node.

    `fits` has every node. `pods` has also nodes that do not exist; a node without pods
    is absent, and so are pods for no certain node. `deleted` has the uids of pods that
    this sync has deleted already.
    """

    daemon_set: DaemonSet
    revision_hash: str
    fits: Mapping[str, Fit]
    pods: Mapping[str, Sequence[Pod]]
    deleted: Collection[str] = frozenset()

    @classmethod
    def of(
        cls,
        daemon_set: DaemonSet,
        revision_hash: str,
        fits: Mapping[str, Fit],
        pods: Iterable[Pod],
    ) -> "View":
        """Return the view of these pods, which the daemon set controls."""
        return cls(daemon_set, revision_hash, fits, by_node(pods))

    def after(self, created: Iterable[Pod], deleted: Iterable[str]) -> "View":
        """Return the view after pods were created, and others deleted by uid."""
        additions = by_node(created)
        pods = {**self.pods}
        for node, new in additions.items():
            pods[node] = (*self.pods.get(node, ()), *new)
        uids = frozenset((*self.deleted, *deleted))
        return msgspec.structs.replace(self, pods=pods, deleted=uids)

    def on(self, node: str) -> Sequence[Pod]:
        """Return the pods on a node, or for it."""
        return self.pods.get(node, _NONE)

    def staying(self, node: str) -> list[Pod]:
        """Return the pods on a node, or for it, that are not being deleted."""
        return [pod for pod in self.on(node) if not self.is_leaving(pod)]

    def is_leaving(self, pod: Pod) -> bool:
        """Tell whether the pod is being deleted."""
        return is_deleting(pod) or pod.metadata.uid in self.deleted

    def is_updated(self, pod: Pod) -> bool:
        """Tell whether the pod was made from the current template (IsPodUpdated)."""
        label = labels_of(pod).get(POD_REVISION_LABEL)
        return bool(self.revision_hash) and label == self.revision_hash

    def is_available(self, pod: Pod, now: datetime) -> bool:
        """Tell whether the pod has been ready for minReadySeconds."""
        return is_available(pod, self.daemon_set.spec.min_ready_seconds, now)

    def nodes_of_update(self) -> list[str]:
        """Return the nodes that must have a pod, then others that have one."""
        wanted = [node for node, fit in self.fits.items() if fit is Fit.RUN]
        others = (node for node in self.pods if self.fits.get(node) is not Fit.RUN)
        return [*wanted, *others]


def by_node(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """Return pods by the node that they are for (getNodesToDaemonPods).

    A pod that has ended and is being deleted does not count any more: a finalizer
    may hold it for long.
    """
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        if is_deleting(pod) and is_terminal(pod):
            continue
        if node := target_of(pod):
            found.setdefault(node, []).append(pod)
    return found


def oldest_first(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods with those that have a node first, then by age and name."""

    def rank(pod: Pod) -> tuple[bool, str, str]:
        metadata = pod.metadata
        # API servers write all times in one form: as texts they sort as in time.
        unbound = not pod.spec.node_name
        return unbound, metadata.creation_timestamp or "", metadata.name

    return sorted(pods, key=rank)
