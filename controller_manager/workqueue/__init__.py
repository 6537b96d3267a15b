"""Work queues of keys: deduplicating, delaying, rate-limiting.

The semantics are those of client-go's ``util/workqueue``. The queues use asyncio and a
clock. They do not depend on Kubernetes, on controllers or on the export of metrics
(they call hooks).
"""
