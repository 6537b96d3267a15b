"""Queues of keys: deduplicating, delaying, rate-limiting.

The semantics are those of client-go's ``util/workqueue``. Here live data
structures over hashable keys, driven by asyncio and a clock; they know nothing
of Kubernetes, of controllers or of how metrics are exported (they call the
hooks of :class:`~controller_manager.workqueue.metrics.QueueMetrics`).
"""
