"""``python -m tests.simulation``: inject faults and report violations."""

import asyncio
import os
import shlex
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from inspect import getdoc
from typing import Final, TypeVar

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.conformance.recordings import RECORDINGS
from tests.simulation import sieve
from tests.simulation.finding import NoPropertiesError, find_properties
from tests.simulation.runner import Outcome, play, shrink
from tests.simulation.scenarios import NAMED, play_named

T = TypeVar("T")
R = TypeVar("R")

_SHOWN: Final = 5
_COMMAND: Final = "python -m tests.simulation"


@click.command()
@click.option("--seeds", default=100, show_default=True, help="How many to play.")
@click.option("--first", default=1, show_default=True, help="The first of them.")
@click.option("--seed", type=int, help="Play this one only.")
@click.option(
    "--only",
    multiple=True,
    help="Of that seed's faults, inject only this one; may be given more than once.",
)
@click.option(
    "--scenario",
    type=click.Choice([*NAMED, "all"]),
    help="Play one of upstream's known faults, or all, instead of seeds.",
)
@click.option(
    "--sieve",
    "recorded",
    type=click.Choice([*RECORDINGS, "all"]),
    help="Break every write of a recorded scenario in every way, instead of seeds.",
)
@click.option(
    "--properties",
    "more",
    metavar="MODULE",
    multiple=True,
    help="A module with the properties of a controller outside this tree, by its "
    "dotted name; may be given more than once. Those that installed packages name "
    "are found without it.",
)
@click.option("--jobs", default=1, show_default=True, help="Processes to play in.")
def main(
    *,
    seeds: int,
    first: int,
    seed: int | None,
    only: tuple[str, ...],
    scenario: str | None,
    recorded: str | None,
    more: tuple[str, ...],
    jobs: int,
) -> None:
    """Play seeds; exit with 1 if there was a violation."""
    console = Console()
    try:
        find_properties(more)
    except NoPropertiesError as error:
        raise click.UsageError(str(error)) from error
    if scenario is not None:
        failed = _play_scenarios(console, scenario, more, jobs)
    elif recorded is not None:
        failed = _play_sieve(console, recorded, more, jobs)
    else:
        numbers = [seed] if seed is not None else list(range(first, first + seeds))
        plan = Plan(frozenset(only) or None, more)
        failed = _play_seeds(console, numbers, plan, jobs)
    sys.exit(1 if failed else 0)


def _each(
    console: Console, what: str, work: Callable[[T], R], items: list[T], jobs: int
) -> list[R]:
    """Call `work` with each item, in several processes, with a progress bar."""
    return list(
        track(
            _in_processes(work, items, jobs),
            total=len(items),
            description=what,
            console=console,
            transient=True,
        )
    )


def _violations(work: Callable[[T], list[str]], item: T) -> list[str]:
    """Return the violations that `work` finds; an error that ends it is one, too.

    An error is passed on as its traceback: not every error can be pickled.
    """
    try:
        return work(item)
    except (Exception, asyncio.CancelledError):  # noqa: BLE001 - all are reported
        return [f"{item} ended in an error: {traceback.format_exc()}"]


def _in_processes(work: Callable[[T], R], items: Iterable[T], jobs: int) -> Iterator[R]:
    if jobs == 1:
        yield from map(work, items)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(work, items)


# Seeds


@dataclass(frozen=True, slots=True)
class Plan:
    """Settings that are the same for all seeds."""

    only: frozenset[str] | None
    more_properties: tuple[str, ...]


def _play_seeds(console: Console, numbers: list[int], plan: Plan, jobs: int) -> bool:
    outcomes = _each(console, "Seeds", partial(_checked, plan=plan), numbers, jobs)
    console.print(_seeds_table(outcomes))
    console.print(_faults_table(outcomes))
    hours = sum(each.seconds for each in outcomes) / 3600
    failures = [each for each in outcomes if each.violations]
    console.print(
        f"{len(outcomes)} seeds, {sum(len(each.faults) for each in outcomes)} faults, "
        f"{hours:.0f} virtual hours, {sum(each.writes for each in outcomes)} writes, "
        f"{len(failures)} seeds failed",
        highlight=False,
    )
    for failure in failures[:_SHOWN]:
        _explain(console, failure, plan)
    if len(failures) > _SHOWN:
        more = ", ".join(str(each.seed) for each in failures[_SHOWN:])
        console.print(f"\nas well, one by one with --seed: {more}", highlight=False)
    return bool(failures)


def _checked(seed: int, plan: Plan) -> Outcome:
    """Play a seed; play each tenth seed twice, which must give the same trace."""
    outcome = play(seed, plan.only, plan.more_properties)
    if seed % 10 == 0 and (
        play(seed, plan.only, plan.more_properties).trace != outcome.trace
    ):
        differs = "the second run gave another trace"
        return replace(outcome, violations=(*outcome.violations, differs))
    return outcome


def _seeds_table(outcomes: list[Outcome]) -> Table:
    """Return a table of seeds by faults and violations; failed seeds have own rows."""
    table = Table(title="Seeds")
    table.add_column("seed")
    for heading in ("faults", "writes", "virtual minutes", "violations"):
        table.add_column(heading, justify="right")
    for each in outcomes:
        if each.violations or len(outcomes) <= 2 * _SHOWN:
            _add_seeds(table, str(each.seed), [each])
    good = [each for each in outcomes if not each.violations]
    if len(outcomes) > 2 * _SHOWN and good:
        label = f"{len(good)} of {good[0].seed} to {good[-1].seed}"
        _add_seeds(table, label, good)
    return table


def _add_seeds(table: Table, label: str, outcomes: list[Outcome]) -> None:
    violations = sum(len(each.violations) for each in outcomes)
    table.add_row(
        label,
        str(sum(len(each.faults) for each in outcomes)),
        str(sum(each.writes for each in outcomes)),
        f"{sum(each.seconds for each in outcomes) / 60:.0f}",
        str(violations),
        style="bold red" if violations else "",
    )


def _faults_table(outcomes: list[Outcome]) -> Table:
    total: Counter[str] = Counter()
    seeds: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for outcome in outcomes:
        total.update(outcome.counts)
        seeds.update(outcome.counts.keys())
        if outcome.violations:
            failed.update(outcome.counts.keys())
    table = Table(title="Faults")
    table.add_column("fault")
    for heading in ("injected", "in seeds", "of these failed"):
        table.add_column(heading, justify="right")
    for kind, count in sorted(total.items()):
        table.add_row(kind, str(count), str(seeds[kind]), str(failed[kind]))
    return table


def _explain(console: Console, failure: Outcome, plan: Plan) -> None:
    """Show the violations, the shortest failing plan, and the command to replay it."""
    console.print(f"\nSeed {failure.seed}:", style="bold red")
    _show_failure(console, failure)
    with console.status("looking for the shortest plan that fails"):
        shortest = shrink(failure, more_properties=plan.more_properties)
    console.print(f"the shortest plan that fails has {len(shortest.faults)} faults:")
    for fault in shortest.faults:
        console.print(f"  {fault}", highlight=False, markup=False)
    _show_failure(console, shortest)
    words = [f"--only={each.opportunity}" for each in shortest.faults]
    words += [f"--properties={each}" for each in plan.more_properties]
    command = f"{_COMMAND} --seed={failure.seed} {shlex.join(words)}"
    console.print(f"play it again: {command}", highlight=False, soft_wrap=True)


def _show_failure(console: Console, failure: Outcome) -> None:
    """Show the violations of a seed, or the traceback of the error that ended it."""
    _show_violations(console, failure.violations)
    if failure.error:
        console.print(failure.error, highlight=False, markup=False, soft_wrap=True)


def _show_violations(console: Console, violations: Iterable[str]) -> None:
    for violation in list(violations)[:_SHOWN]:
        console.print(f"  {violation}", highlight=False, markup=False)


# Scenarios


def _play_scenarios(
    console: Console, wanted: str, more: tuple[str, ...], jobs: int
) -> bool:
    names = list(NAMED) if wanted == "all" else [wanted]
    work = partial(_violations, partial(play_named, more_properties=more))
    results = _each(console, "Scenarios", work, names, jobs)
    table = Table(title="Upstream's known faults")
    for heading in ("scenario", "reported as", "violations"):
        table.add_column(heading)
    for name, violations in zip(names, results, strict=True):
        reported = (getdoc(NAMED[name]) or "").partition("\n")[0]
        table.add_row(
            name,
            reported,
            "\n".join(violations) or "none",
            style="bold red" if violations else "",
        )
    console.print(table)
    if len(names) == 1:
        console.print(getdoc(NAMED[wanted]) or "", highlight=False, markup=False)
    return any(results)


def _play_sieve(
    console: Console, wanted: str, more: tuple[str, ...], jobs: int
) -> bool:
    names = list(RECORDINGS) if wanted == "all" else [wanted]
    table = Table(title="Every write, broken in every way")
    table.add_column("scenario")
    for heading in ("writes", "breaks", "violations"):
        table.add_column(heading, justify="right")
    problems: list[str] = []

    def break_each_write(name: str) -> list[str]:
        reference = sieve.play_scenario(name, more_properties=more)
        breaks = list(sieve.breaks_of(reference))
        work = partial(
            sieve.problems_with, name, reference=reference, more_properties=more
        )
        found = _each(console, name, partial(_violations, work), breaks, jobs)
        bad = [each for results in found for each in results]
        table.add_row(name, str(len(reference.writes)), str(len(breaks)), str(len(bad)))
        return bad

    for name in names:
        problems += _violations(break_each_write, name)
    console.print(table)
    _show_violations(console, problems)
    return bool(problems)


if __name__ == "__main__":
    # The order of a set of strings must be the same in each run, too.
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(  # noqa: S606 - this program, once more
            sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
        )
    main()
