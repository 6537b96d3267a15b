"""The metrics of mirrored Endpoints."""

from prometheus_client import CollectorRegistry

from controller_manager.controllers.network.endpointslicemirroring.controller import (
    MirroringMetrics,
)
from tests.controllers.network.endpointslicemirroring.test_slices import (
    WEB,
    endpoint,
    endpoints,
    mirrored,
    slice_json,
    subset,
)

_PREFIX = "endpoint_slice_mirroring_controller"


def test_gauges_show_what_all_endpoints_need_and_have() -> None:
    """A sync replaces the former numbers; only mirrored Endpoints count."""
    registry = CollectorRegistry()
    metrics = MirroringMetrics(registry)

    def gauges() -> tuple[float | None, ...]:
        names = ("endpoints_desired", "num_endpoint_slices", "desired_endpoint_slices")
        return tuple(registry.get_sample_value(f"{_PREFIX}_{name}") for name in names)

    assert gauges() == (0, 0, 0)
    one = mirrored(endpoints(subset("10.0.0.1 10.0.0.2 10.0.0.3")))
    metrics.mirrored("n/one", one, limit=2)
    assert gauges() == (3, 1, 2)
    two = mirrored(endpoints(subset("10.0.0.1"), subset("10.0.0.2", "", WEB)))
    metrics.mirrored("n/two", two, limit=2)
    assert gauges() == (5, 3, 4)
    surplus = mirrored(
        endpoints(subset("10.0.0.1")),
        slice_json("db-1", endpoint("10.0.0.1")),
        slice_json("db-2", endpoint("10.0.0.1")),
    )
    metrics.mirrored("n/one", surplus, limit=2)
    assert gauges() == (3, 3, 3)
    metrics.forget("n/two")
    metrics.forget("n/one")
    metrics.forget("n/one")
    assert gauges() == (0, 0, 0)


def test_histograms_and_the_counter_have_upstreams_names_and_buckets() -> None:
    """The series of the counter exist from the start."""
    registry = CollectorRegistry()
    metrics = MirroringMetrics(registry)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"{_PREFIX}_{name}", labels)

    for operation in ("create", "update", "delete"):
        assert value("changes", operation=operation) == 0
    found = mirrored(
        endpoints(subset("10.0.0.1 10.0.0.2 10.0.0.3 x")),
        slice_json("db-1", endpoint("10.0.0.1", ready=False), endpoint("10.0.0.9")),
        limit=2,
    )
    metrics.mirrored("n/db", found, limit=2)
    metrics.wrote("update")
    metrics.duration.observe(0.003)
    assert {
        "added": value("endpoints_added_per_sync_sum"),
        "updated": value("endpoints_updated_per_sync_sum"),
        "removed": value("endpoints_removed_per_sync_sum"),
        "skipped": value("addresses_skipped_per_sync_sum"),
        "changes": value("changes", operation="update"),
        "first": value("endpoints_added_per_sync_bucket", le="2.0"),
        "last": value("endpoints_added_per_sync_bucket", le="32768.0"),
        "fast": value("endpoints_sync_duration_bucket", le="0.002"),
        "slow": value("endpoints_sync_duration_bucket", le="16.384"),
    } == {
        "added": 1,
        "updated": 1,
        "removed": 1,
        "skipped": 2,
        "changes": 1,
        "first": 1,
        "last": 1,
        "fast": 0,
        "slow": 1,
    }
