"""Metrics of the garbage collector, with upstream's names."""

from collections.abc import Callable
from typing import Final, ParamSpec

from prometheus_client import CollectorRegistry, Counter

from controller_manager.clock import Clock
from controller_manager.observability.metrics.queues import QueueCollectors

GRAPH_CHANGES: Final = "garbage_collector_graph_changes"

ArgumentsT = ParamSpec("ArgumentsT")


class GarbageCollectorMetrics:
    """The ``garbagecollector_controller_*`` metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        """Register the collectors."""
        self._errors = Counter(
            "garbagecollector_controller_resources_sync_error_total",
            "Number of garbage collector resources sync errors",
            registry=registry,
        )

    def sync_failed(self) -> None:
        """Count a sync in which not all resources could be discovered or read."""
        self._errors.inc()


class GraphChanges:
    """The ``workqueue_*`` metrics of the changes of the graph.

    Upstream has a queue between the watches and the graph. This manager makes a change
    as soon as a watch shows it, so no change waits.
    """

    def __init__(self, queues: QueueCollectors, clock: Clock) -> None:
        self._metrics = queues.queue(GRAPH_CHANGES)
        self._clock = clock

    def take(
        self,
        change: Callable[ArgumentsT, None],
        *arguments: ArgumentsT.args,
        **named: ArgumentsT.kwargs,
    ) -> None:
        """Make a change, and measure it."""
        begun = self._clock.monotonic()
        self._metrics.added(0)
        self._metrics.got(0.0, 0)
        change(*arguments, **named)
        self._metrics.done(self._clock.monotonic() - begun)
