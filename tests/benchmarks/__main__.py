"""``python -m tests.benchmarks``: measure, compare, report."""

import asyncio
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from controller_manager.client.identity.kubeconfig import ConfigError
from tests.benchmarks.contenders import OURS, Contender, ContenderError
from tests.benchmarks.driver import DriverError
from tests.benchmarks.measuring import Figures, Options
from tests.benchmarks.report import draw, show, show_curves, write_json
from tests.benchmarks.workloads import BENCHMARKS, SIZES

_ALL: Final = (*BENCHMARKS, "sizes", "all")


_SIZES: Final = {
    "deployments": "How many to create and roll.",
    "replicas": "Pods of each.",
    "replica_sets": "Replica sets that `settled` begins with.",
    "stateful_sets": "How many `statefulset` creates, with 20 pods each.",
    "nodes": "Nodes of `daemonset`.",
    "jobs": "How many `jobs` creates, with 10 completions each.",
    "services": "How many `services` starts with, with 10 pods each.",
    "autoscalers": "How many `autoscalers` runs, with 2 pods each.",
    "claims": "Claims, and volumes, that `volumes` binds.",
    "renewing_nodes": "Nodes of `heartbeats`.",
    "attachments": "Volumes of `attachments`, twenty of each node.",
}
"""The numbers that a user may choose, by the field of `Options`."""


def _with_sizes(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each size; its default is that of `Options`."""
    for name, text in reversed(_SIZES.items()):
        flag, default = f"--{name.replace('_', '-')}", getattr(Options(), name)
        kind = click.IntRange(1)
        add = click.option(
            flag, name, type=kind, default=default, show_default=True, help=text
        )
        command = add(command)
    return command


@click.command()
@click.argument("benchmark", type=click.Choice(_ALL), default="rollout")
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Measure on this cluster, on which no manager may run. The default is a "
    "development cluster in a process of its own.",
)
@_with_sizes
@click.option(
    "--idle-pods",
    type=click.IntRange(0),
    help="Pods without an owner in the same namespace; each benchmark has a "
    "number of its own unless this is given.",
)
@click.option(
    "--versus",
    help="The command of another manager, to be measured with the same work; "
    "{kubeconfig} and {port} are replaced by those that it is to use.",
)
@click.option(
    "--json",
    "json_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write all figures to this file.",
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw cost against size into this file (.svg or .png); for `sizes`.",
)
def main(
    *,
    benchmark: str,
    kubeconfig: Path | None,
    idle_pods: int | None,
    versus: str | None,
    json_path: Path | None,
    plot: Path | None,
    **sizes: Any,
) -> None:
    """Measure what the manager costs; `sizes` measures cost against size."""
    console = Console()
    options = Options(idle_pods=idle_pods, kubeconfig=kubeconfig, **sizes)
    contenders = [Contender("controller-manager", OURS)]
    if versus is not None:
        if "{kubeconfig}" not in versus:
            _fail("--versus: {kubeconfig} must say where the kubeconfig belongs")
        contenders.append(Contender("versus", versus))
    wanted = [*BENCHMARKS, "sizes"] if benchmark == "all" else [benchmark]
    results: dict[str, dict[str, Figures]] = {}
    curves: dict[str, dict[str, dict[int, Figures]]] = {}
    with tempfile.TemporaryDirectory() as directory:
        options = replace(options, logs=Path(directory))
        try:
            for name in wanted:
                if name == "sizes":
                    curves = _measure_sizes(console, contenders, options)
                else:
                    results[name] = _measure(console, name, contenders, options)
        except (ContenderError, DriverError, ConfigError) as error:
            _fail(str(error))
    show(console, results)
    show_curves(console, curves)
    if json_path is not None:
        write_json(json_path, results, curves)
    if plot is not None and curves:
        draw(plot, curves)


def _fail(message: str) -> None:
    click.echo(f"error: {message}", err=True)
    sys.exit(1)


def _measure(
    console: Console, name: str, contenders: list[Contender], options: Options
) -> dict[str, Figures]:
    figures = {}
    for contender in contenders:
        with console.status(f"{name}: {contender.name}"):
            figures[contender.name] = asyncio.run(BENCHMARKS[name](contender, options))
    return figures


def _measure_sizes(
    console: Console, contenders: list[Contender], options: Options
) -> dict[str, dict[str, dict[int, Figures]]]:
    curves: dict[str, dict[str, dict[int, Figures]]] = {}
    for what, (measure, sizes) in SIZES.items():
        curves[what] = {}
        for contender in contenders:
            by_size: dict[int, Figures] = {}
            for size in sizes:
                with console.status(f"{size} {what}: {contender.name}"):
                    by_size[size] = asyncio.run(measure(contender, options, size))
            curves[what][contender.name] = by_size
    return curves


if __name__ == "__main__":
    main()
