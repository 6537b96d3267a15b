"""Work queues of keys: deduplicating, delaying, rate-limiting.

The semantics are those of client-go's ``util/workqueue``. The queues use asyncio and a
clock. They do not depend on Kubernetes, on controllers or on the export of metrics
(they call the hooks of :class:`~controller_manager.workqueue.metrics.QueueMetrics`).

- ``deadlines``: keys that wait for a deadline
- ``key_state``: the state of one key
- ``metrics``: the hooks for metrics
- ``queue``: the work queue
- ``ratelimiters``: the backoff of each key, and the token bucket of all retries
- ``retries``: chooses the failed key that is retried next
"""
