"""The metrics of evictions."""

from prometheus_client import CollectorRegistry

from controller_manager.controllers.nodes.tainteviction.controller import (
    TaintEvictionMetrics,
)


def test_a_deletion_is_counted_with_its_delay_in_seconds() -> None:
    """Upstream multiplies the delay by 10 to the power of 18."""
    registry = CollectorRegistry()
    metrics = TaintEvictionMetrics(registry)
    metrics.deleted(0.2)
    metrics.deleted(7.0)
    prefix = "taint_eviction_controller_pod_deletion"
    found = {
        name: registry.get_sample_value(f"{prefix}{name}", labels)
        for name, labels in (
            ("s_total", {}),
            ("_duration_seconds_sum", {}),
            ("_duration_seconds_bucket", {"le": "0.5"}),
            ("_duration_seconds_count", {}),
        )
    }
    assert found == {
        "s_total": 2.0,
        "_duration_seconds_sum": 7.2,
        "_duration_seconds_bucket": 1.0,
        "_duration_seconds_count": 2.0,
    }
