"""The subcommands ``devcluster snapshot`` and ``devcluster restore``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from controller_manager.cli.failure import Failure

from .failures import data_failures

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_FILE = click.Path(dir_okay=False, path_type=Path)


def _with_source(command: FunctionT) -> FunctionT:
    """Add the flags that say which cluster is meant."""
    command = click.option(
        "--data",
        type=_FILE,
        help="The data file of a cluster that does not run.",
    )(command)
    return click.option(
        "--kubeconfig",
        type=_FILE,
        envvar="KUBECONFIG",
        help="The kubeconfig of a running cluster; else KUBECONFIG names it.",
    )(command)


@click.command("snapshot")
@_with_source
@click.argument("file", type=_FILE)
def snapshot_command(kubeconfig: Path | None, data: Path | None, file: Path) -> None:
    """Write the state of a cluster to FILE, which `devcluster restore` reads.

    FILE has one line of JSON for each object, secrets too.
    """
    from controller_manager.cli.daemon import run  # noqa: PLC0415
    from controller_manager.devcluster.data import transfer  # noqa: PLC0415

    with data_failures():
        if data is not None:
            count = transfer.snapshot_of_data(data, file)
        else:
            source = _needed(kubeconfig, "snapshot")
            count = run(transfer.snapshot_of_cluster(source, file))
    click.echo(f"{file}: {count} objects")


@click.command("restore")
@_with_source
@click.option(
    "--keep-watches",
    is_flag=True,
    help="Let the watches of a running cluster go on, with an event for each change.",
)
@click.argument("file", type=_FILE)
def restore_command(
    *, kubeconfig: Path | None, data: Path | None, keep_watches: bool, file: Path
) -> None:
    """Replace all objects of a cluster by those that FILE has.

    Clients of a running cluster list again: their watches end. A data file that does
    not exist is created.
    """
    from controller_manager.cli.daemon import run  # noqa: PLC0415
    from controller_manager.devcluster.data import transfer  # noqa: PLC0415

    with data_failures():
        if data is not None:
            count = transfer.restore_data(data, file)
        else:
            target = _needed(kubeconfig, "restore")
            restoring = transfer.restore_cluster(
                target, file, keeps_watches=keep_watches
            )
            count = run(restoring)
    click.echo(f"{count} objects restored")


def _needed(kubeconfig: Path | None, command: str) -> Path:
    if kubeconfig is None:
        message = (
            f"{command}: name the cluster: --kubeconfig of a running one, or --data of "
            "one that does not run"
        )
        raise Failure([message])
    return kubeconfig
