"""A preview beside managers that meet faults writes nothing and finds nothing."""

import pytest

from tests.simulation.previews import Shadowed, play_shadowed

pytestmark = pytest.mark.nightly


def _agrees(found: Shadowed) -> None:
    assert found.violations == ()
    assert found.writes == ()
    assert found.report.divergences == []
    # It has read, and many of its writes were those of the manager in charge.
    assert found.reads > 1_000
    assert found.report.confirmed_writes > 100


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_preview_agrees_under_faults_of_its_own_and_of_the_managers(
    seed: int,
) -> None:
    """Dropped watches, lost answers, slow and refused requests, crashes, old lists."""
    _agrees(play_shadowed(seed))


def test_a_preview_agrees_without_faults() -> None:
    _agrees(play_shadowed(1, frozenset()))
