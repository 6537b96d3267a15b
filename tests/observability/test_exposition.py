"""Metrics are written as upstream's Go programs write them."""

import pytest
from prometheus_client import CollectorRegistry

from controller_manager.observability.exposition import expose, go_float
from controller_manager.observability.plain_counter import PlainCounter


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (0.005, "0.005"),
        (64.0, "64"),
        (262144.0, "262144"),
        (1048576.0, "1.048576e+06"),
        (9.999999999999999e-06, "9.999999999999999e-06"),
        (1e-08, "1e-08"),
        (2592000.0, "2.592e+06"),
    ],
)
def test_bounds_are_written_as_go_writes_them(value: float, text: str) -> None:
    """Prometheus tells series apart by the text."""
    assert go_float(value) == text


def test_a_plain_counter_has_exactly_its_name() -> None:
    """The client library would append a suffix that upstream's does not have."""
    registry = CollectorRegistry()
    counter = PlainCounter("slice_changes", "Changes", ("operation",), registry)
    counter.increment("create", by=0)
    counter.increment("update")
    counter.increment("update")
    assert counter.value("update") == 2
    assert expose(registry).decode().splitlines() == [
        "# HELP slice_changes Changes",
        "# TYPE slice_changes counter",
        'slice_changes{operation="create"} 0.0',
        'slice_changes{operation="update"} 2.0',
    ]
    assert expose(registry, ("slice_changes",)) == b""
