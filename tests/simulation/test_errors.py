"""A seed that an error ends is one failed seed; the other seeds are played."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from controller_manager.client.rest.transport import Request, Response
from tests.simulation import __main__ as command
from tests.simulation import runner, sieve
from tests.simulation.checks import Checks
from tests.simulation.faults import Faults
from tests.simulation.managers import Manager
from tests.simulation.properties import Properties, Write
from tests.simulation.runner import End, Outcome, play, shrink
from tests.simulation.sieve import Break, SieveResult
from tests.simulation.world import World

ERROR = "tests.simulation.test_errors.UnpicklableError: 7 at the shop"


class UnpicklableError(Exception):
    """An error that no process can pass on to another."""

    def __init__(self, number: int, place: str) -> None:
        super().__init__(f"{number} at {place}")
        self.open = lambda: number


@pytest.fixture(autouse=True)
def _seed_7_ends_in_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let seed 7 end in an error, and all others at once, without any faults."""

    async def played(cluster: Any, faults: Faults) -> tuple[End, Outcome]:
        faults.draw({"crash": 1.0}, "world", 1.0)
        if cluster.seed == 7:
            raise UnpicklableError(7, "the shop")
        return End({}, Counter()), Outcome(cluster.seed, (), (), 0.0, 1, "")

    monkeypatch.setattr(runner, "_played", played)


def test_an_error_is_a_violation_with_its_traceback() -> None:
    """The faults that had been injected by then are known."""
    outcome = play(7)
    assert "in played" in outcome.error
    assert outcome.error.endswith("UnpicklableError: 7 at the shop\n")
    fault = Faults(7).draw({"crash": 1.0}, "world", 1.0)
    assert fault is not None
    assert replace(outcome, error="") == Outcome(
        seed=7,
        violations=(f"an error ended the run: {ERROR}",),
        faults=(fault,),
        seconds=0.0,
        writes=0,
        trace="",
        counts={"crash": 1},
    )


@pytest.mark.slow
def test_an_error_without_faults_is_the_shortest_failure() -> None:
    """Nothing needs to be tried that has more faults."""
    assert shrink(play(7)).faults == ()


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.slow
def test_the_other_seeds_are_played(jobs: int) -> None:
    """In one process and in several, between which an error cannot pass."""
    arguments = ["--first=6", "--seeds=3", f"--jobs={jobs}"]
    result = CliRunner().invoke(command.main, arguments)
    assert result.exit_code == 1
    assert "3 seeds, 1 faults, 0 virtual hours, 2 writes, 1 seeds failed" in (
        result.output
    )
    assert "Seed 7:" in result.output
    assert "UnpicklableError: 7 at the shop\n" in result.output
    assert "python -m tests.simulation --seed=7" in result.output


@pytest.mark.slow
def test_a_seed_that_gives_two_traces_is_one_failed_seed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The others are played."""
    traces = iter(("one", "undisturbed", "another", "undisturbed"))

    async def played(cluster: Any, _: Faults) -> tuple[End, Outcome]:
        trace = next(traces) if cluster.seed == 10 else ""
        return End({}, Counter()), Outcome(cluster.seed, (), (), 0.0, 1, trace)

    monkeypatch.setattr(runner, "_played", played)
    monkeypatch.setattr(command, "shrink", lambda failure, **_: failure)
    result = CliRunner().invoke(command.main, ["--first=9", "--seeds=3"])
    assert result.exit_code == 1
    assert "3 writes, 1 seeds failed" in result.output
    assert "Seed 10:\n  the second run gave another trace\n" in result.output


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_scenario_that_an_error_ends_is_one_of_its_table(
    monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    """The other scenarios are played."""
    monkeypatch.setattr(command, "NAMED", {"one": _one, "other": _other})
    monkeypatch.setattr(command, "play_named", _play_named)
    option = next(each for each in command.main.params if each.name == "scenario")
    monkeypatch.setattr(option, "type", click.Choice(["one", "other", "all"]))
    arguments = ["--scenario=all", f"--jobs={jobs}"]
    result = CliRunner().invoke(command.main, arguments, env={"COLUMNS": "200"})
    assert result.exit_code == 1
    assert "one ended in an error: Traceback" in result.output
    assert "UnpicklableError: 1 at the shop" in result.output
    assert "Play to the end" in result.output


def _one() -> None:
    """End in an error."""


def _other() -> None:
    """Play to the end."""


def _play_named(name: str, **_: Any) -> list[str]:
    if name == "one":
        raise UnpicklableError(1, "the shop")
    return []


def test_a_recording_that_an_error_ends_is_one_failed_recording(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The others are played, and so are the other breaks of its writes."""
    monkeypatch.setattr(command, "RECORDINGS", ("one", "other", "third"))
    option = next(each for each in command.main.params if each.name == "recorded")
    monkeypatch.setattr(option, "type", click.Choice(["all"]))
    reference = SieveResult(checkpoints=[], writes=["POST /pods"], violations=[])

    def play_scenario(name: str, **_: Any) -> SieveResult:
        if name == "one":
            raise UnpicklableError(1, "the shop")
        return reference

    def problems_with(name: str, broken: Break, **_: Any) -> list[str]:
        if name == "other" and broken.pattern == "crash after":
            raise UnpicklableError(2, "the shop")
        return []

    monkeypatch.setattr(sieve, "play_scenario", play_scenario)
    monkeypatch.setattr(sieve, "problems_with", problems_with)
    result = CliRunner().invoke(command.main, ["--sieve=all"], env={"COLUMNS": "200"})
    assert result.exit_code == 1
    rows = [
        [cell.strip() for cell in line.split("│")[1:-1]]
        for line in result.output.splitlines()
        if line.startswith("│")
    ]
    assert rows == [["other", "1", "5", "1"], ["third", "1", "5", "0"]]
    assert "one ended in an error: Traceback" in result.output
    assert "UnpicklableError: 1 at the shop" in result.output
    assert "UnpicklableError: 2 at the shop" in result.output


class _WrongProperties(Properties):
    controller = "any"
    may_write = ()

    def after_write(self, write: Write) -> Iterator[str]:
        raise UnpicklableError(7, str(write))


def test_an_error_of_a_check_is_a_defect_of_the_run() -> None:
    """The manager does not get it as the answer to its request."""

    async def observed() -> list[str]:
        world = World(1, Faults(1))
        world.properties = [_WrongProperties(world.state)]
        checks = Checks(world)
        request = Request("POST", "/api/v1/namespaces/default/pods")
        answer = Response(201, {}, b'{"metadata": {"name": "p"}}')
        observer = checks.of(Manager(world, 0, checks.of))
        observer.after_write(request, answer, None, "any")
        return [str(each) for each in world.defects]

    assert runner.run(observed()) == ["7 at POST /api/v1/namespaces/default/pods"]
