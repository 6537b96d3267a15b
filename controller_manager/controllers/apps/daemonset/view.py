"""The data of one sync of a daemon set, as an immutable value."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from controller_manager.api.apps.v1 import DaemonSet
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting, labels_of
from controller_manager.api.pods import TERMINAL_PHASES, is_available, is_terminal
from controller_manager.control.history.names import POD_REVISION_LABEL
from controller_manager.controllers.apps.daemonset.placement import Fit
from controller_manager.controllers.apps.daemonset.targets import target_of
from controller_manager.controllers.apps.daemonset.template import (
    POD_TEMPLATE_GENERATION,
    template_generation,
)

_NONE: Sequence[Pod] = ()


class View(Struct, frozen=True):
    """A daemon set, what each node is to it, and its pods by node.

    `fits` has every node where a pod may run, and other nodes that have pods. `pods`
    has also nodes that do not exist; a node without pods is absent, and so are pods
    for no certain node. `deleted` has the uids of pods that this sync has deleted
    already.
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
        judge: Callable[[str], Fit | None],
    ) -> "View":
        """Return the view of these pods, which the daemon set controls.

        `fits` may lack nodes. Missing nodes that have pods are judged now: a node
        without a verdict must not lose its pods. `judge` returns `None` for a node that
        does not exist.
        """
        placed = by_node(pods)
        judged = {node: judge(node) for node in placed if node not in fits}
        others = {node: fit for node, fit in judged.items() if fit is not None}
        return cls(daemon_set, revision_hash, {**fits, **others}, placed)

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
        """Tell whether the pod was made from the current template (IsPodUpdated).

        One of its two labels suffices: the revision of a template gets another hash
        if it was deleted, or if a later API server adds a field to all templates. The
        generation of an adopted pod is that of a former daemon set, which says nothing.
        Upstream lets it count, and so may not replace such a pod.
        """
        if self.has_current_hash(pod):
            return True
        generation = template_generation(self.daemon_set)
        if generation is None or self._is_older(pod):
            return False
        return labels_of(pod).get(POD_TEMPLATE_GENERATION) == generation

    def _is_older(self, pod: Pod) -> bool:
        """Tell whether the pod was created before its daemon set."""
        began = self.daemon_set.metadata.creation_timestamp or ""
        # API servers write all times in one form: as texts they sort as in time.
        return (pod.metadata.creation_timestamp or "") < began

    def has_current_hash(self, pod: Pod) -> bool:
        """Tell whether the pod names the current revision."""
        label = labels_of(pod).get(POD_REVISION_LABEL)
        return label == self.revision_hash and bool(label)

    def is_at_rest(self, node: str) -> bool:
        """Tell whether the node has exactly one pod, which neither ended nor leaves.

        So it is with almost all nodes in almost all syncs.
        """
        pods = self.pods.get(node, _NONE)
        if len(pods) != 1:
            return False
        metadata, phase = pods[0].metadata, pods[0].status.phase
        return (
            phase not in TERMINAL_PHASES
            and not metadata.deletion_timestamp
            and metadata.uid not in self.deleted
        )

    def has_other_hashes(self) -> bool:
        """Tell whether some pod names another revision: it may be an old pod."""
        current = self.revision_hash
        return any(
            (pod.metadata.labels or {}).get(POD_REVISION_LABEL) != current
            for pods in self.pods.values()
            for pod in pods
        )

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
        if pod.metadata.deletion_timestamp and is_terminal(pod):
            continue
        if node := pod.spec.node_name or target_of(pod):
            if node in found:
                found[node].append(pod)
            else:
                found[node] = [pod]
    return found


def oldest_first(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods with those that have a node first, then by age and name."""

    def rank(pod: Pod) -> tuple[bool, str, str]:
        metadata = pod.metadata
        # API servers write all times in one form: as texts they sort as in time.
        unbound = not pod.spec.node_name
        return unbound, metadata.creation_timestamp or "", metadata.name

    return sorted(pods, key=rank)
