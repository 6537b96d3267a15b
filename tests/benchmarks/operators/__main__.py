"""``python -m tests.benchmarks.operators``: measure three operators, and draw."""

import asyncio
import sys
import tempfile
from pathlib import Path

import click

from controller_manager.client.rest.errors import TransportError
from tests.benchmarks.contenders import ContenderError
from tests.benchmarks.driver import DriverError
from tests.benchmarks.operators.measuring import CONTENDERS, measure
from tests.benchmarks.operators.page import Run, updated
from tests.benchmarks.pages import read_runs, write_runs

_DOCS = Path(__file__).parents[3] / "docs"
_FILE = _DOCS / "operators-measured.json"


@click.command()
@click.argument("what", type=click.Choice(("measure", "draw")))
@click.option("--objects", type=click.IntRange(30), default=1000, show_default=True)
@click.option(
    "--contender",
    "contenders",
    multiple=True,
    type=click.Choice([*CONTENDERS]),
    default=[*CONTENDERS],
    help="One of them; all by default.",
)
@click.option("--repeat", type=click.IntRange(1), default=3, show_default=True)
@click.option(
    "--faults/--no-faults",
    default=True,
    help="Lose watches and refuse writes, too. It takes ten minutes a run.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Measure on this cluster, an empty one, and without faults. The default is a "
    "development cluster in a process of its own.",
)
@click.option(
    "--into",
    type=click.Path(dir_okay=False, path_type=Path),
    default=_FILE,
    help="Add the figures to this file.",
)
def main(
    *,
    what: str,
    objects: int,
    contenders: tuple[str, ...],
    repeat: int,
    faults: bool,
    kubeconfig: Path | None,
    into: Path,
) -> None:
    """Measure the operators by turns, or draw the figures of all runs.

    `draw` writes the tables of docs/operators-measured.md.
    """
    if what == "draw":
        page = _DOCS / "operators-measured.md"
        page.write_text(updated(page.read_text(), read_runs(into, Run)))
        return
    for turn in range(repeat):
        for name in contenders[:: -1 if turn % 2 else 1]:
            run = _measure(name, objects, kubeconfig, faults=faults)
            write_runs(into, [*read_runs(into, Run), run])


def _measure(name: str, objects: int, kubeconfig: Path | None, *, faults: bool) -> Run:
    """Measure one operator once; a fault is one line, and the end."""
    cluster = "devcluster" if kubeconfig is None else "kube-apiserver"
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "log"
        try:
            figures = asyncio.run(
                measure(CONTENDERS[name], objects, kubeconfig, log, faults=faults)
            )
        except (ContenderError, DriverError, TransportError) as error:
            click.echo(f"error: {name}: {error}", err=True)
            sys.exit(1)
    click.echo(f"{name}, {objects} widgets: {figures}")
    return Run(name, objects, cluster, figures)


if __name__ == "__main__":
    main()
