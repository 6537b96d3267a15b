"""``python -m tests.benchmarks.devcluster``: what the development cluster carries."""

import asyncio
import tempfile
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from tests.benchmarks.devcluster.held import measure_held
from tests.benchmarks.devcluster.pods import measure_pods
from tests.benchmarks.devcluster.processes import TREE, running_cluster
from tests.benchmarks.devcluster.requests import measure_requests
from tests.benchmarks.devcluster.starts import measure_starts
from tests.benchmarks.machine import usage_of
from tests.benchmarks.measuring import Figures
from tests.benchmarks.report import show, write_json

_ALL: Final = ("requests", "pods", "held", "starts")


@click.command()
@click.argument("what", type=click.Choice((*_ALL, "all")), default="all")
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Send the requests to this cluster, to compare; for `requests`.",
)
@click.option("--pods", type=click.IntRange(1), default=2000, show_default=True)
@click.option("--clients", type=click.IntRange(1), default=20, show_default=True)
@click.option("--processes", type=click.IntRange(1), default=2, show_default=True)
@click.option(
    "--versus",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Measure the cluster in this source, too, by turns; for `pods`.",
)
@click.option("--objects", type=click.IntRange(100), default=100_000, show_default=True)
@click.option(
    "--data", is_flag=True, help="Keep the state in a file meanwhile; for `requests`."
)
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path))
def main(
    *,
    what: str,
    kubeconfig: Path | None,
    pods: int,
    clients: int,
    processes: int,
    versus: Path | None,
    objects: int,
    data: bool,
    json_path: Path | None,
) -> None:
    """Measure the development cluster, or send the same requests to another one."""
    results: dict[str, dict[str, Figures]] = {}
    trees = {"now": TREE} if versus is None else {"now": TREE, "before": versus}
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        for each in _ALL if what == "all" else (what,):
            match each:
                case "requests" if kubeconfig is not None:
                    measured = asyncio.run(measure_requests(kubeconfig, pods, clients))
                case "requests":
                    flags = (f"--data={directory / 'state'}",) if data else ()
                    measured = _requests(directory, pods, clients, flags)
                case "pods":
                    results[each] = measure_pods(trees, pods, clients, processes)
                    continue
                case "held":
                    measured = asyncio.run(measure_held(objects))
                case _:
                    measured = measure_starts()
            results[each] = {"now": measured}
    show(Console(), results)
    if json_path is not None:
        write_json(json_path, results)


def _requests(
    directory: Path, pods: int, clients: int, flags: tuple[str, ...]
) -> Figures:
    """Measure a cluster in a process of its own, and what that costs it."""
    with running_cluster(directory, *flags) as (kubeconfig, pid):
        before = usage_of(pid).cpu
        measured = asyncio.run(measure_requests(kubeconfig, pods, clients))
        return {
            **measured,
            "CPU of the cluster, s": usage_of(pid).cpu - before,
            "memory of the cluster, MB": usage_of(pid).resident,
        }


if __name__ == "__main__":
    main()
