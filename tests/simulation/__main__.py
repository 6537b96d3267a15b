"""``python -m tests.simulation``: play many seeds, show what came of them."""

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor

import click
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.simulation.runner import Outcome, play, shrink


@click.command()
@click.option("--seeds", default=100, show_default=True, help="How many to play.")
@click.option("--first", default=1, show_default=True, help="The first of them.")
@click.option("--seed", type=int, help="Play this one only, and show its faults.")
@click.option("--jobs", default=1, show_default=True, help="Processes to play in.")
def main(seeds: int, first: int, seed: int | None, jobs: int) -> None:
    """Play seeds; exit with 1 if anything that must never be was seen."""
    console = Console()
    numbers = [seed] if seed is not None else list(range(first, first + seeds))
    outcomes = list(
        track(
            _played(numbers, jobs),
            total=len(numbers),
            description="Seeds",
            console=console,
            transient=True,
        )
    )
    _show(console, outcomes)
    failures = [each for each in outcomes if each.violations]
    for failure in failures[:3]:
        _explain(console, failure)
    sys.exit(1 if failures else 0)


def _played(numbers: Iterable[int], jobs: int) -> Iterator[Outcome]:
    if jobs == 1:
        yield from map(_checked, numbers)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(_checked, numbers)


def _checked(seed: int) -> Outcome:
    """Play a seed; each tenth twice, which must give the same trace."""
    outcome = play(seed)
    if seed % 10 == 0 and play(seed).trace != outcome.trace:
        msg = f"seed {seed} does not give the same trace twice"
        raise AssertionError(msg)
    return outcome


def _show(console: Console, outcomes: list[Outcome]) -> None:
    table = Table(title="Faults")
    for heading in ("fault", "injected"):
        table.add_column(heading)
    total: Counter[str] = Counter()
    for outcome in outcomes:
        total.update(outcome.counts)
    for kind, count in sorted(total.items()):
        table.add_row(kind, str(count))
    console.print(table)
    hours = sum(each.seconds for each in outcomes) / 3600
    failed = sum(bool(each.violations) for each in outcomes)
    console.print(
        f"{len(outcomes)} seeds, {total.total()} faults, {hours:.0f} virtual hours, "
        f"{sum(each.writes for each in outcomes)} writes, {failed} seeds failed",
        highlight=False,
    )


def _explain(console: Console, failure: Outcome) -> None:
    console.print(f"\nSeed {failure.seed}:", style="bold red")
    for violation in failure.violations[:5]:
        console.print(f"  {violation}", highlight=False, markup=False)
    shortest = shrink(failure)
    console.print(f"the shortest plan that fails has {len(shortest.faults)} faults:")
    for fault in shortest.faults:
        console.print(f"  {fault}", highlight=False, markup=False)
    for violation in shortest.violations[:5]:
        console.print(f"  {violation}", highlight=False, markup=False)
    console.print(f"play it again: python -m tests.simulation --seed {failure.seed}")


if __name__ == "__main__":
    # Sets of strings must have one order, too.
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(  # noqa: S606 - this program, once more
            sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]]
        )
    main()
