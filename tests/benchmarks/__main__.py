"""``python -m tests.benchmarks``: measure, compare, report."""

import asyncio
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from controller_manager.client.identity.kubeconfig import ConfigError
from tests.benchmarks.contenders import OURS, Contender, ContenderError
from tests.benchmarks.driver import DriverError
from tests.benchmarks.measuring import Figures, Options
from tests.benchmarks.report import show, write_json
from tests.benchmarks.workloads import BENCHMARKS

_ALL: Final = (*BENCHMARKS, "all")


@click.command()
@click.argument("benchmark", type=click.Choice(_ALL), default="rollout")
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Measure on this cluster, on which no manager may run. The default is a "
    "development cluster in a process of its own.",
)
@click.option(
    "--deployments",
    type=click.IntRange(1),
    default=Options().deployments,
    show_default=True,
    help="How many to create and roll.",
)
@click.option(
    "--replicas",
    type=click.IntRange(1),
    default=Options().replicas,
    show_default=True,
    help="Pods of each.",
)
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
def main(
    *,
    benchmark: str,
    kubeconfig: Path | None,
    idle_pods: int | None,
    versus: str | None,
    json_path: Path | None,
    deployments: int,
    replicas: int,
) -> None:
    """Measure what the manager costs."""
    console = Console()
    options = Options(deployments, replicas, idle_pods, kubeconfig)
    contenders = [Contender("controller-manager", OURS)]
    if versus is not None:
        if "{kubeconfig}" not in versus:
            _fail("--versus: {kubeconfig} must say where the kubeconfig belongs")
        contenders.append(Contender("versus", versus))
    wanted = [*BENCHMARKS] if benchmark == "all" else [benchmark]
    results: dict[str, dict[str, Figures]] = {}
    with tempfile.TemporaryDirectory() as directory:
        options = replace(options, logs=Path(directory))
        try:
            for name in wanted:
                results[name] = _measure(console, name, contenders, options)
        except (ContenderError, DriverError, ConfigError) as error:
            _fail(str(error))
    show(console, results)
    if json_path is not None:
        write_json(json_path, results)


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


if __name__ == "__main__":
    main()
