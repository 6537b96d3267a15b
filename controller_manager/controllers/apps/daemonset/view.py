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

from .nodes import Fit, target_of
from .pod_template import POD_TEMPLATE_GENERATION, template_generation

_NONE: Sequence[Pod] = ()


class View(Struct, frozen=True):
    """A daemon set, the fit of each node, and its pods by node.

    `fits` has every node where a pod may run, and other nodes that have pods. `pods`
    has also nodes that do not exist. It lacks nodes without pods, and pods that name no
    node. `deleted` has the uids of pods that this sync has deleted already.
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
        fit_of: Callable[[str], Fit | None],
    ) -> "View":
        """Return the view of these pods, which the daemon set controls.

        `fits` may lack nodes. For missing nodes that have pods, `fit_of` computes the
        fit now: a node that was not checked must not lose its pods. `fit_of` returns
        `None` for a node that does not exist.
        """
        placed = by_node(pods)
        computed = {node: fit_of(node) for node in placed if node not in fits}
        others = {node: fit for node, fit in computed.items() if fit is not None}
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

        One of its two labels is enough: the revision of a template gets another hash if
        it was deleted, or if a later API server adds a field to all templates. The
        generation label of an adopted pod counts the changes of a former daemon set, so
        it is ignored. Upstream uses it, and so may not replace such a pod.
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
        """Tell whether the node has exactly one pod, which has not ended and stays.

        Almost all nodes are at rest in almost all syncs.
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
        """Tell whether a pod names another revision, and so may be an old pod."""
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
        """Return the nodes that must have a pod, then other nodes that have one."""
        wanted = [node for node, fit in self.fits.items() if fit is Fit.RUN]
        others = (node for node in self.pods if self.fits.get(node) is not Fit.RUN)
        return [*wanted, *others]


def by_node(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """Return pods by the node that they belong to (getNodesToDaemonPods).

    A pod that has ended and is being deleted does not count: a finalizer may keep it
    for a long time.
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
    """Return the pods sorted: pods with a node first, then by age and name."""

    def rank(pod: Pod) -> tuple[bool, str, str]:
        metadata = pod.metadata
        # API servers write all times in one form: as texts they sort as in time.
        unbound = not pod.spec.node_name
        return unbound, metadata.creation_timestamp or "", metadata.name

    return sorted(pods, key=rank)
