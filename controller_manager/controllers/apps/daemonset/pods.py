"""The pods of a daemon set by node: missing, failed and surplus ones; the status.

Upstream: manage, podsShouldBeOnNode and updateDaemonSetStatus.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct

from controller_manager.api.apps.v1 import DaemonSet, DaemonSetStatus
from controller_manager.api.core.v1 import Pod
from controller_manager.api.meta import is_deleting, labels_of
from controller_manager.api.pods import (
    TERMINAL_PHASES,
    is_available,
    is_ready,
    is_terminal,
)
from controller_manager.api.scalars import scaled_value
from controller_manager.control.controller_history import POD_REVISION_LABEL

from .backoff import Delays
from .nodes import Fit, target_of
from .pod_template import POD_TEMPLATE_GENERATION, template_generation

BURST_REPLICAS: Final = 250
"""The most pods that one plan creates, and the most that it deletes."""

ROLLING_UPDATE: Final = "RollingUpdate"
"""The update strategy that replaces pods; the other one is OnDelete."""


class DaemonPods(Struct, frozen=True):
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
    ) -> "DaemonPods":
        """Place these pods, which the daemon set controls.

        For nodes with pods that `fits` lacks, `fit_of` computes the fit now: a node
        that was not checked must not lose its pods. It returns `None` for a node that
        does not exist.
        """
        placed = by_node(pods)
        computed = {node: fit_of(node) for node in placed if node not in fits}
        others = {node: fit for node, fit in computed.items() if fit is not None}
        return cls(daemon_set, revision_hash, {**fits, **others}, placed)

    def after(self, created: Iterable[Pod], deleted: Iterable[str]) -> "DaemonPods":
        """Return the pods after some were created, and others deleted by uid."""
        pods = {**self.pods}
        for node, new in by_node(created).items():
            pods[node] = (*self.on(node), *new)
        uids = frozenset((*self.deleted, *deleted))
        return msgspec.structs.replace(self, pods=pods, deleted=uids)

    def on(self, node: str) -> Sequence[Pod]:
        """Return the pods on a node, or for it."""
        return self.pods.get(node, ())

    def staying(self, node: str) -> list[Pod]:
        """Return the pods on a node, or for it, that are not being deleted."""
        return [pod for pod in self.on(node) if not self.is_leaving(pod)]

    def is_leaving(self, pod: Pod) -> bool:
        """Tell whether the pod is being deleted."""
        return is_deleting(pod) or pod.metadata.uid in self.deleted

    def is_updated(self, pod: Pod) -> bool:
        """Tell whether the pod was made from the current template (IsPodUpdated)."""
        # One of its two labels is enough: the revision of a template gets another hash
        # if it was deleted, or if a later API server adds a field to all templates. The
        # generation label of an adopted pod counts the changes of a former daemon set,
        # so it is ignored. Upstream uses it, and so may not replace such a pod.
        if self.has_current_hash(pod):
            return True
        generation = template_generation(self.daemon_set)
        if generation is None or self._is_older(pod):
            return False
        return labels_of(pod).get(POD_TEMPLATE_GENERATION) == generation

    def _is_older(self, pod: Pod) -> bool:
        began = self.daemon_set.metadata.creation_timestamp or ""
        # API servers write all times in one form: as texts they sort as in time.
        return (pod.metadata.creation_timestamp or "") < began

    def has_current_hash(self, pod: Pod) -> bool:
        """Tell whether the pod names the current revision."""
        label = labels_of(pod).get(POD_REVISION_LABEL)
        return label == self.revision_hash and bool(label)

    def is_at_rest(self, node: str) -> bool:
        """Tell whether the node has exactly one pod, which stays: almost all do."""
        pods = self.pods.get(node, ())
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
    """Return pods by the node that they belong to (getNodesToDaemonPods)."""
    # A pod that has ended and is being deleted does not count: a finalizer may keep it
    # for a long time.
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        if pod.metadata.deletion_timestamp and is_terminal(pod):
            continue
        if node := pod.spec.node_name or target_of(pod):
            found.setdefault(node, []).append(pod)
    return found


def oldest_first(pods: Iterable[Pod]) -> list[Pod]:
    """Return the pods sorted: pods with a node first, then by age and name."""

    def rank(pod: Pod) -> tuple[bool, str, str]:
        metadata = pod.metadata
        # API servers write all times in one form: as texts they sort as in time.
        unbound = not pod.spec.node_name
        return unbound, metadata.creation_timestamp or "", metadata.name

    return sorted(pods, key=rank)


class Deletion(Struct, frozen=True):
    """A pod to delete, and its node.

    `has_ended` is true if the pod is deleted because it has failed or succeeded. An
    event reports this, and a failed pod begins a delay.
    """

    node: str
    pod: Pod
    has_ended: bool = False


class Plan(Struct, frozen=True):
    """The nodes to create a pod for, and the pods to delete.

    `requeue_after`, in seconds, requests another sync, which no event would cause.
    """

    nodes: tuple[str, ...] = ()
    deletions: tuple[Deletion, ...] = ()
    requeue_after: float | None = None

    @property
    def is_empty(self) -> bool:
        """True if the plan creates and deletes no pod."""
        return not self.nodes and not self.deletions


def in_burst(
    nodes: Sequence[str],
    deletions: Sequence[Deletion],
    requeue_after: float | None = None,
) -> Plan:
    """Return a plan of at most `BURST_REPLICAS` creations and as many deletions."""
    # The events of these pods cause the next sync, which continues.
    return Plan(
        tuple(nodes[:BURST_REPLICAS]), tuple(deletions[:BURST_REPLICAS]), requeue_after
    )


def allows_surge(daemon_set: DaemonSet) -> bool:
    """Tell whether a node may have two pods during an update (AllowsSurge)."""
    return surge_count(daemon_set, 1) > 0


def surge_count(daemon_set: DaemonSet, total: int) -> int:
    """Return how many of `total` nodes may have a second pod (SurgeCount)."""
    strategy = daemon_set.spec.update_strategy
    rolling = strategy.rolling_update
    if strategy.type != ROLLING_UPDATE or rolling is None or rolling.max_surge is None:
        return 0
    return scaled_value(rolling.max_surge, total, round_up=True)


def manage_pods(placed: DaemonPods, delays: Delays, now: datetime) -> Plan:
    """Return the plan that gives each node the pods that it must have."""
    # A failed pod is not replaced before its delay ends. With maxSurge, too, no pod is
    # created beside a failed pod that waits: that one may fail as well, and so on.
    nodes: list[str] = []
    deletions: list[Deletion] = []
    waits = [*delays.missing.values()]
    for node, fit in placed.fits.items():
        if fit is not Fit.NONE and placed.is_at_rest(node):
            continue
        is_held = node in delays.missing
        if fit is Fit.RUN and not placed.on(node):
            if not is_held:
                nodes.append(node)
        elif fit is Fit.NONE:
            deletions += (Deletion(node, pod) for pod in placed.staying(node))
        else:
            staying, delay = placed.staying(node), delays.failed.get(node)
            running = [pod for pod in staying if not is_terminal(pod)]
            ended = [pod for pod in staying if is_terminal(pod)]
            leaving, waiting = _ended_to_delete(ended, delay)
            deletions += (Deletion(node, pod, has_ended=True) for pod in leaving)
            if waiting and delay is not None:
                waits.append(delay)
                is_held = True
            surplus = _surplus(placed, running, now)
            deletions += (Deletion(node, pod) for pod in surplus)
            may_have_another = fit is Fit.RUN and not running and not is_held
            if may_have_another and allows_surge(placed.daemon_set):
                nodes.append(node)
    deletions += _without_node(placed)
    return in_burst(nodes, deletions, min(waits, default=None))


def _ended_to_delete(
    ended: Sequence[Pod], delay: float | None
) -> tuple[list[Pod], bool]:
    # While there is a delay, failed pods wait: a kubelet may reject every pod. Only one
    # failed pod is deleted at a time, because its deletion begins a new delay.
    leaving = [pod for pod in ended if pod.status.phase == "Succeeded"]
    failed = [pod for pod in ended if pod.status.phase == "Failed"]
    if delay is None and failed:
        return [*leaving, failed[0]], len(failed) > 1
    return leaving, bool(failed)


def _surplus(placed: DaemonPods, running: Sequence[Pod], now: datetime) -> list[Pod]:
    if len(running) <= 1:
        return []
    if not allows_surge(placed.daemon_set):
        return oldest_first(running)[1:]
    new = [pod for pod in oldest_first(running) if placed.has_current_hash(pod)]
    old = [pod for pod in oldest_first(running) if not placed.has_current_hash(pod)]
    surplus = [*new[1:], *old[1:]]
    if new and old and (not is_ready(old[0]) or placed.is_available(new[0], now)):
        surplus.append(old[0])  # no available pod is lost
    return surplus


def _without_node(placed: DaemonPods) -> Iterator[Deletion]:
    # The scheduler cannot bind these, and the pod garbage collector does not delete
    # them.
    for node in placed.pods:
        if node not in placed.fits:
            for pod in placed.staying(node):
                if not pod.spec.node_name:
                    yield Deletion(node, pod)


def calculate_status(
    placed: DaemonPods, now: datetime, *, is_processed: bool
) -> DaemonSetStatus:
    """Return the status; with `is_processed` the generation counts as observed."""
    # Each node counts by its oldest pod, also while that one is being deleted: during
    # an update a new pod counts once the old one is gone.
    current = desired = misscheduled = ready = available = updated = 0
    for node, fit in placed.fits.items():
        pods = placed.on(node)
        if fit is not Fit.RUN:
            misscheduled += bool(pods)
            continue
        desired += 1
        if not pods:
            continue
        current += 1
        oldest = pods[0] if len(pods) == 1 else oldest_first(pods)[0]
        updated += placed.is_updated(oldest)
        if is_ready(oldest):
            ready += 1
            available += placed.is_available(oldest, now)
    status = placed.daemon_set.status
    generation = placed.daemon_set.metadata.generation
    return msgspec.structs.replace(
        status,
        current_number_scheduled=current,
        desired_number_scheduled=desired,
        number_misscheduled=misscheduled,
        number_ready=ready,
        number_available=available,
        number_unavailable=desired - available,
        updated_number_scheduled=updated,
        observed_generation=generation if is_processed else status.observed_generation,
    )
