"""Metrics are written as upstream's Go programs write them."""

import pytest

from controller_manager.observability.exposition import go_float


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
