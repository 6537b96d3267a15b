"""The cache TTL of kubelets, by the number of nodes."""

import pytest

from controller_manager.controllers.nodes.ttl.controller import STEPS, step_for


@pytest.mark.parametrize(
    ("nodes", "before", "after"),
    [
        (0, 0, 0),
        (100, 0, 0),
        (101, 0, 1),
        (95, 1, 1),
        (89, 1, 0),
        (5_000, 0, 4),
        (1_799, 4, 3),
        (1, 4, 0),
    ],
)
def test_the_ranges_of_cluster_sizes_overlap(
    nodes: int, before: int, after: int
) -> None:
    """With upstream's limits: one for growing, a lower one for shrinking."""
    assert step_for(nodes, before) == after


def test_the_seconds_are_upstreams() -> None:
    """From nothing to five minutes."""
    assert [each.seconds for each in STEPS] == [0, 15, 30, 60, 300]
