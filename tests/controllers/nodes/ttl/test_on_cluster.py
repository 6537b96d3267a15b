"""Nodes are annotated on a cluster in memory, on virtual time."""

from collections import Counter

import pytest

from controller_manager.api.core.v1 import NODES
from controller_manager.controllers.nodes.ttl.controller import STEPS, step_for
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers.hands import Hands
from tests.controllers.scenarios import Scenario, scenarios


def config() -> Config:
    return make_config(controllers=("ttl",))


class Annotated(Hands):
    def ttls(self) -> Counter[str]:
        metadata = [each["metadata"] for each in self.all(NODES)]
        return Counter(
            each["annotations"]["node.alpha.kubernetes.io/ttl"] for each in metadata
        )


@pytest.mark.looptime
@scenarios("nodes/ttl")
async def test_nodes_are_annotated(scenario: Scenario) -> None:
    await scenario.play(Annotated, config)


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
def test_ranges_of_sizes_overlap(nodes: int, before: int, after: int) -> None:
    """With upstream's limits: one for growing, a lower one for shrinking."""
    assert step_for(nodes, before) == after


def test_the_seconds_are_upstreams() -> None:
    assert [each.seconds for each in STEPS] == [0, 15, 30, 60, 300]
