"""Chooses the pods that nothing else deletes, and deletes them (gc_controller.go)."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter

from controller_manager.api.core.v1 import NODES, PODS, Node, Pod
from controller_manager.api.meta import is_deleting, key_of, metadata_of, true_condition
from controller_manager.api.pods import is_terminal
from controller_manager.api.scalars import format_time
from controller_manager.client.rest import errors
from controller_manager.client.rest.client import DeleteOptions
from controller_manager.control.expectations import live
from controller_manager.control.pod_indexes import PODS_BY_NODE
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.controller import Controller, WorkerGroup
from controller_manager.runtime.outcome import (
    DONE,
    Done,
    Outcome,
    SyncError,
    failure_of,
)

from . import PodGCOptions

_ALIVE: Final = frozenset(("Pending", "Running", "Unknown"))


def may_be_collected(pod: Pod, nodes: Mapping[str, Node]) -> bool:
    """Tell whether one of the functions below may choose a pod; False for most pods."""
    return (
        pod.status.phase not in _ALIVE
        or is_deleting(pod)
        or bool(pod.spec.node_name and pod.spec.node_name not in nodes)
    )


def terminated_above_threshold(pods: Iterable[Pod], threshold: int) -> list[Pod]:
    """Return the terminated pods above a positive threshold, the evicted first."""
    if threshold <= 0:
        return []
    ended = [pod for pod in pods if pod.status.phase not in _ALIVE]
    surplus = len(ended) - threshold
    return sorted(ended, key=_order)[:surplus] if surplus > 0 else []


def _order(pod: Pod) -> tuple[bool, str, str]:
    evicted = pod.status.phase == "Failed" and pod.status.reason == "Evicted"
    return not evicted, pod.metadata.creation_timestamp or "", pod.metadata.name


def terminating_out_of_service(
    pods: Iterable[Pod], nodes: Mapping[str, Node]
) -> list[Pod]:
    """Return the terminating pods of nodes that are out of service and not ready."""
    terminating = [pod for pod in pods if is_deleting(pod)]
    found = [pod for pod in terminating if _is_down(nodes.get(pod.spec.node_name))]
    return sorted(found, key=_order)


def _is_down(node: Node | None) -> bool:
    if node is None or true_condition(node.status.conditions, "Ready") is not None:
        return False
    name = "node.kubernetes.io/out-of-service"
    return any(each.key == name for each in node.spec.taints or ())


def unscheduled_terminating(pods: Sequence[Pod]) -> list[Pod]:
    """Return the terminating pods without a node; no kubelet will end them."""
    return [pod for pod in pods if is_deleting(pod) and not pod.spec.node_name]


def missing_nodes(pods: Iterable[Pod], nodes: Mapping[str, Node]) -> set[str]:
    """Return the names of nodes that pods are bound to and that do not exist."""
    return {pod.spec.node_name for pod in pods} - nodes.keys() - {""}


class PodGCMetrics:
    """The ``pod_gc_collector_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ("namespace", "reason")
        self.deletions = Counter(
            "pod_gc_collector_force_delete_pods_total",
            "Number of pods that were to be deleted by force",
            labels,
            registry=registry,
        )
        self.errors = Counter(
            "pod_gc_collector_force_delete_pod_errors_total",
            "Number of pods that could not be deleted by force",
            labels,
            registry=registry,
        )


_PERIOD: Final = 20.0
_QUARANTINE: Final = 40.0
"""Seconds that a node must be missing before its pods count as orphaned."""

_AT_ONCE: Final = 100
"""Pods that are deleted concurrently."""

_TURN: Final = 2000
"""Pods that are checked before other tasks get their turn: one millisecond."""


def init_pod_garbage_collector_controller(context: ControllerContext) -> Controller:
    """Wire the controller to its informers (newPodGarbageCollectorController)."""
    collector = PodGarbageCollector(context)
    return WorkerGroup(
        context.workers(collector.nodes, collector.sync_node, 1),
        context.workers(collector.rounds, collector.sync_all, 1, collector.enqueue_all),
    )


class PodGarbageCollector:
    """Deletes pods without a grace period; marks unfinished ones as failed first."""

    def __init__(self, context: ControllerContext) -> None:
        self.rounds = context.queue("pod_garbage_collector")
        self.nodes = context.queue("orphaned_pods_nodes")
        self._client = context.client
        self._clock = context.clock
        self._logger = context.logger
        self._metrics = context.metrics.of(PodGCMetrics)
        self._threshold = context.config.of(PodGCOptions).terminated_pod_threshold
        self._pods = context.lister(PODS, PODS_BY_NODE)
        self._nodes = context.lister(NODES)

    def enqueue_all(self) -> Iterator[None]:
        """Start the checks of all pods."""
        self.rounds.add("pods")
        yield

    async def sync_all(self, key: str) -> Outcome:  # noqa: ARG002 - there is one
        """Check all pods; requeue for the next check."""
        return await failure_of(self._check_all(), _PERIOD) or Done(_PERIOD)

    async def _check_all(self) -> None:
        nodes = {node.metadata.name: node for node in self._nodes.all()}
        pods = await self._pods_to_check(nodes)
        for name in missing_nodes(pods, nodes):
            self.nodes.add_after(name, _QUARANTINE)
        chosen = (
            ("terminated", terminated_above_threshold(pods, self._threshold)),
            ("out-of-service", terminating_out_of_service(pods, nodes)),
            ("unscheduled", unscheduled_terminating(pods)),
        )
        problems: list[SyncError] = []
        for why, some in chosen:
            problems += await self._delete_all(some, why)
        for problem in problems:
            self._logger.error("Pod not deleted", err=str(problem))

    async def _pods_to_check(self, nodes: Mapping[str, Node]) -> list[Pod]:
        found = []
        for number, pod in enumerate(self._pods.all()):
            if may_be_collected(pod, nodes):
                found.append(pod)
            if number % _TURN == _TURN - 1:
                await asyncio.sleep(0)
        return found

    async def sync_node(self, name: str) -> Outcome:
        """Delete the pods of a node that is still missing after its quarantine."""
        if self._nodes.by_key(name) is not None:
            return DONE
        # Read the pods before the node: pods that are created later may belong to a
        # later node of that name.
        orphans = self._pods.by_index(PODS_BY_NODE, name)
        if not await self._is_gone(name):
            return DONE
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
        }
        if problems := await self._delete_all(orphans, "orphaned", condition):
            text = "; ".join(map(str, problems))
            raise SyncError(text) from errors.gravest(problems)
        return DONE

    async def _is_gone(self, name: str) -> bool:
        """Tell whether the API server has no node of this name.

        Raises NotFound if the API server did not find the path: the node may exist.
        """
        return await live(self._client, NODES, "", name) is None

    async def _delete_all(
        self, pods: Sequence[Pod], why: str, condition: dict[str, Any] | None = None
    ) -> list[SyncError]:
        """Delete pods, some of them concurrently; return the errors."""
        problems: list[SyncError | None] = []
        for start in range(0, len(pods), _AT_ONCE):
            batch = pods[start : start + _AT_ONCE]
            deletions = (self._delete(pod, why, condition) for pod in batch)
            problems += await asyncio.gather(*deletions)
        return [problem for problem in problems if problem]

    async def _delete(
        self, pod: Pod, why: str, condition: dict[str, Any] | None
    ) -> SyncError | None:
        """Mark a pod as failed unless it has ended; delete it; return an error.

        Without the mark, the status of a pod without a kubelet would stay Running.
        """
        labels = (pod.metadata.namespace, why)
        self._metrics.deletions.labels(*labels).inc()
        self._logger.v(2).info("Deleting a pod", pod=key_of(pod), why=why)
        try:
            if not is_terminal(pod):
                await self._mark_failed(pod, condition)
            options = DeleteOptions(grace_period_seconds=0)
            await self._client.delete_exactly(PODS, pod, options)
        except (errors.NotFound, errors.Conflict):
            return None  # the pod is gone, or another pod has its name now
        except (errors.APIError, errors.TransportError, errors.ProtocolError) as error:
            self._metrics.errors.labels(*labels).inc()
            problem = SyncError(f"{key_of(pod)}: {error}")
            problem.__cause__ = error
            return problem
        return None

    async def _mark_failed(self, pod: Pod, condition: dict[str, Any] | None) -> None:
        generation = pod.metadata.generation
        observed = {"observedGeneration": generation} if generation else {}
        status: dict[str, Any] = {"phase": "Failed", **observed}
        if condition is not None:
            stamped = {**condition, "lastProbeTime": None, **observed}
            if true_condition(pod.status.conditions, "DisruptionTarget") is None:
                stamped["lastTransitionTime"] = format_time(self._clock.now())
            status["conditions"] = [stamped]
        await self._client.patch_exactly(
            metadata_of(PODS), pod, {"status": status}, subresource="status"
        )
