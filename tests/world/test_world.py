"""Nothing is lost in a world where everything goes wrong, and a lost write is found."""

import random
from collections import Counter
from unittest import mock

import pytest
from click.testing import CliRunner

from controller_manager.control.expectations import Expectations, State

from . import __main__ as command
from .faults import Faults
from .runner import play, shrink
from .table import TABLE
from .users import ROWS, rows_of

SEEDS = range(20)
"""The seeds of each commit; each commit plays the same."""

RANDOM_SEEDS = 40
"""The seeds of each night, which begin anywhere."""


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.slow
def test_nothing_is_lost_whatever_goes_wrong(seed: int) -> None:
    """Each seed is a cluster, its users, and about two hundred faults."""
    outcome = play(seed)
    assert not outcome.violations, "\n".join(command.story_of(outcome))


@pytest.mark.nightly
def test_nothing_is_lost_in_other_seeds(pytestconfig: pytest.Config) -> None:
    """They begin with --seed, or anywhere; the failure names each that failed."""
    given = pytestconfig.getoption("--seed")
    first = random.SystemRandom().randrange(10**6) if given is None else given
    failed = [
        "\n".join(command.story_of(outcome))
        for seed in range(first, first + RANDOM_SEEDS)
        if (outcome := play(seed)).violations
    ]
    assert not failed, "\n".join(failed)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run() -> None:
    """Bit for bit; otherwise no failure could be examined."""
    assert play(4) == play(4)


@pytest.mark.slow
def test_a_failure_has_the_shortest_story(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed, the few faults that matter, and what users did."""
    monkeypatch.setattr(command, "shrink", lambda each, **more: shrink(each, 3, **more))
    ignored = mock.patch.object(Expectations, "state", return_value=State.FULFILLED)
    arguments = ["--seed=1", "--row=replicasets"]
    with ignored:
        result = CliRunner().invoke(command.main, arguments)
        outcome = play(1, rows=("replicasets",))
    assert result.exit_code == 1
    assert "--seed 1 --row 'replicasets'" in result.output
    assert "replicasets in default: create bare" in result.output
    shown = result.output.partition("with ")[2].partition(" faults")[0]
    assert int(shown) <= len(outcome.faults)


def test_seeds_that_follow_each_other_play_the_whole_table() -> None:
    """So no kind is left out by the seeds of a commit."""
    played = {row.name for seed in SEEDS for row in rows_of(seed)}
    assert played == TABLE.keys()
    assert max(len(rows_of(seed)) for seed in SEEDS) <= 2 * ROWS


def test_faults_are_drawn_as_often_as_they_should_be() -> None:
    """Over many opportunities."""
    faults = Faults(1)
    for _ in range(10_000):
        faults.draw({"a": 0.1, "b": 0.02}, "x", 0.0)
    counts = Counter(each.kind for each in faults.injected)
    assert 900 < counts["a"] < 1100
    assert 150 < counts["b"] < 250


def test_a_fault_does_not_depend_on_those_before_it() -> None:
    """Otherwise no story could be made shorter."""
    plans = []
    for others in (0, 100):
        faults = Faults(1)
        for _ in range(others):
            faults.draw({"a": 0.1}, "elsewhere", 0.0)
        for _ in range(100):
            faults.draw({"a": 0.1}, "here", 0.0)
        plans.append(
            [each for each in faults.injected if each.opportunity.startswith("here")]
        )
    assert plans[0] == plans[1] != []
