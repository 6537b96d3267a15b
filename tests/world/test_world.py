"""Nothing is lost in a world where everything goes wrong, and a lost write is found."""

import random
import subprocess
import sys
from collections import Counter
from unittest import mock

import pytest
from click.testing import CliRunner

from controller_manager.informers.informer import SharedInformer

from . import __main__ as command
from . import runner
from .end import State
from .faults import Fault, Faults
from .recorded import SEEDS
from .runner import Outcome, play
from .table import TABLE
from .users import ROWS, rows_of

AT_ONCE = 5
"""Seeds that one process plays."""

SEEDS_OF_A_NIGHT = 40


def _play(first: int, seeds: int) -> None:
    """Play seeds in a process of their own, in which sets have the same order."""
    arguments = ["-m", "tests.world", f"--first={first}", f"--seeds={seeds}"]
    result = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("first", SEEDS[::AT_ONCE])
@pytest.mark.slow
def test_nothing_is_lost_whatever_goes_wrong(first: int) -> None:
    """Each seed is a cluster, its users, and about a hundred and fifty faults."""
    _play(first, AT_ONCE)


@pytest.mark.nightly
def test_nothing_is_lost_in_other_seeds(pytestconfig: pytest.Config) -> None:
    """They begin with --seed, or anywhere; a failure names each that failed."""
    given = pytestconfig.getoption("--seed")
    anywhere = random.SystemRandom().randrange(10**6)
    _play(anywhere if given is None else given, SEEDS_OF_A_NIGHT)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run() -> None:
    """Bit for bit; otherwise no failure could be examined."""
    assert play(2) == play(2)


@pytest.mark.slow
def test_a_failure_shows_the_seed_and_the_story() -> None:
    """Also one that needs no fault: the run without faults is judged as well."""
    with mock.patch.object(SharedInformer, "deleted"):
        result = CliRunner().invoke(command.main, ["--seed=2", "--row=replicasets"])
    assert result.exit_code == 1
    assert "the end: manager 0: its cache of" in result.output
    assert "with 0 faults" in result.output
    assert "replicasets in default: create bare" in result.output
    assert "python -m tests.world --seed 2 --row 'replicasets'" in result.output


def test_a_story_has_only_the_faults_that_matter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Here two of sixty, which fail together only."""
    plan = tuple(Fault(f"x #{number}", "cut", number, 0.5) for number in range(60))
    needed = {"x #7", "x #40"}

    def attempt(seed: int, only: frozenset[str], _: object) -> tuple[State, Outcome]:
        kept = tuple(each for each in plan if each.opportunity in only)
        wrong = ("wrong",) if needed <= only else ()
        return {}, Outcome(seed, wrong, kept)

    monkeypatch.setattr(runner, "_attempt", attempt)
    shorter = runner.shrink(Outcome(99, ("wrong",), plan))
    assert {each.opportunity for each in shorter.faults} == needed


def test_seeds_that_follow_each_other_play_the_whole_table() -> None:
    """So no kind is left out by the seeds of a commit."""
    played = {row.name for seed in SEEDS for row in rows_of(seed)}
    assert played == TABLE.keys()
    assert max(len(rows_of(seed)) for seed in SEEDS) <= 2 * ROWS


def test_faults_are_drawn_as_often_as_they_should_be() -> None:
    """Over many seeds, of which some have many of a kind and some none."""
    seeds = [Faults(seed) for seed in range(400)]
    for faults in seeds:
        for _ in range(100):
            faults.draw({"a": 0.1, "b": 0.02}, "x", 0.0)
    counts = [Counter(each.kind for each in faults.injected) for faults in seeds]
    assert 3400 < sum(each["a"] for each in counts) < 4600
    assert 650 < sum(each["b"] for each in counts) < 950
    assert 80 < sum("a" not in each for each in counts) < 120


def test_a_fault_does_not_depend_on_those_before_it() -> None:
    """Otherwise no story could be made shorter."""
    plans = []
    for others in (0, 100):
        faults = Faults(1)
        for _ in range(others):
            faults.draw({"a": 0.3}, "elsewhere", 0.0)
        for _ in range(100):
            faults.draw({"a": 0.3}, "here", 0.0)
        plans.append(
            [each for each in faults.injected if each.opportunity.startswith("here")]
        )
    assert plans[0] == plans[1] != []
