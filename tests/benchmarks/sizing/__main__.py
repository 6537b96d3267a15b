"""``python -m tests.benchmarks.sizing``: measure a manager, and draw its figures."""

import asyncio
import sys
import tempfile
from pathlib import Path

import click

from controller_manager.client.rest.errors import TransportError
from tests.benchmarks.contenders import OURS, Contender, ContenderError
from tests.benchmarks.driver import DriverError
from tests.benchmarks.pages import read_runs, write_runs
from tests.benchmarks.sizing.cluster import run
from tests.benchmarks.sizing.figures import PROJECT, Run
from tests.benchmarks.sizing.page import updated
from tests.benchmarks.sizing.plot import draw

_DOCS = Path(__file__).parents[3] / "docs"
_SIZES = (30, 100, 300, 1000)


@click.command()
@click.argument("what", type=click.Choice(("measure", "draw")))
@click.option(
    "--nodes", multiple=True, type=click.IntRange(10), default=_SIZES, show_default=True
)
@click.option("--repeat", type=click.IntRange(1), default=2, show_default=True)
@click.option("--manager", default=PROJECT, show_default=True, help="Its name.")
@click.option(
    "--command",
    default=OURS,
    help="The command of another manager; {kubeconfig} and {port} are replaced by "
    "those that it is to use, and the names of the controllers by all.",
)
@click.option(
    "--into",
    type=click.Path(dir_okay=False, path_type=Path),
    default=_DOCS / "sizing.json",
    help="Add the figures to this file.",
)
def main(
    *,
    what: str,
    nodes: tuple[int, ...],
    repeat: int,
    manager: str,
    command: str,
    into: Path,
) -> None:
    """Measure a manager on clusters of these sizes, or draw the figures of all runs.

    `draw` writes the tables and the plot of docs/sizing.md from docs/sizing.json.
    """
    if what == "draw":
        _draw()
        return
    for size in nodes * repeat:
        _measure(Contender(manager, command), size, into)


def _measure(contender: Contender, nodes: int, into: Path) -> None:
    with tempfile.TemporaryDirectory() as logs:
        try:
            figures = asyncio.run(run(contender, nodes, Path(logs)))
        except (ContenderError, DriverError, TransportError) as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(1)
    click.echo(f"{contender.name}, {nodes} nodes: {figures}")
    write_runs(into, [*read_runs(into, Run), Run(contender.name, nodes, figures)])


def _draw() -> None:
    runs = read_runs(_DOCS / "sizing.json", Run)
    page = _DOCS / "sizing.md"
    page.write_text(updated(page.read_text(), runs))
    (_DOCS / "sizing.svg").write_text(draw(runs))


if __name__ == "__main__":
    main()
