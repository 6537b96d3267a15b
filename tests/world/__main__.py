"""Play seeds by hand: ``python -m tests.world --seed 7``."""

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Final

import click

from .recorded import SEEDS, record
from .runner import Outcome, end_without_faults, play, shrink
from .table import TABLE
from .users import rows_of

_SHOWN: Final = 40


def story_of(outcome: Outcome, rows: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield what happened in a failed seed, and how to play it again."""
    played = ", ".join(each.name for each in rows_of(outcome.seed, rows))
    yield f"Seed {outcome.seed} ({played}):"
    yield from (f"  {each}" for each in outcome.violations[:_SHOWN])
    yield f"  with {len(outcome.faults)} faults:"
    yield from (f"    {each}" for each in outcome.faults[:_SHOWN])
    yield "  and what users did:"
    yield from (f"    {each}" for each in outcome.story)
    more = "".join(f" --row '{each}'" for each in rows)
    yield f"  play it again: python -m tests.world --seed {outcome.seed}{more}"


@click.command()
@click.option("--seed", type=int, help="play one seed")
@click.option("--first", type=int, default=SEEDS.start, help="the first of several")
@click.option("--seeds", type=int, default=len(SEEDS), help="the number of seeds")
@click.option("--jobs", type=int, default=1, help="the number of processes")
@click.option(
    "--row",
    "rows",
    multiple=True,
    type=click.Choice(tuple(TABLE)),
    help="play these rows of the table only",
)
@click.option("--record", "records", is_flag=True, help="record the ends anew")
@click.option("--shrink/--no-shrink", "shorter", default=True)
def main(
    seed: int | None,
    first: int,
    seeds: int,
    jobs: int,
    rows: tuple[str, ...],
    *,
    records: bool,
    shorter: bool,
) -> None:
    """Play seeds; show those that fail with the fewest faults that are needed."""
    wanted = [seed] if seed is not None else list(range(first, first + seeds))
    if records:
        for each in wanted:
            record(each, None)
            record(each, end_without_faults(each))
        return
    failed = []
    for outcome in _outcomes(wanted, jobs, rows):
        if outcome.violations:
            failed.append(outcome.seed)
            shown = shrink(outcome, rows=rows) if shorter else outcome
            click.echo("\n".join(story_of(shown, rows)))
        else:
            click.echo(
                f"Seed {outcome.seed}: {len(outcome.faults)} faults, "
                f"{outcome.writes} writes, {outcome.seconds:.0f} virtual seconds"
            )
    click.echo(f"{len(wanted)} seeds, failed: {failed or 'none'}")
    sys.exit(bool(failed))


def _outcomes(seeds: list[int], jobs: int, rows: tuple[str, ...]) -> Iterator[Outcome]:
    playing = partial(play, rows=rows)
    if jobs == 1:
        yield from map(playing, seeds)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(playing, seeds)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        # With another value, sets have another order, and a seed has another trace.
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(  # noqa: S606 - this program, again
            sys.executable, [sys.executable, "-m", "tests.world", *sys.argv[1:]]
        )
    main()
