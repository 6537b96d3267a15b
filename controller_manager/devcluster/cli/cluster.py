"""The subcommand ``devcluster``, with its subcommands ``snapshot`` and ``restore``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from controller_manager.cli.failure import Failure
from controller_manager.devcluster.settings import Settings
from controller_manager.runtime.registry import Registry

from .command_line import (
    COMMAND,
    CommandLine,
    data_failures,
    logger_of,
    needs_extra,
    run_cluster,
    settings_failures,
    settings_flags,
)

# The subcommands ``devcluster snapshot`` and ``devcluster restore``.

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


# The subcommand ``devcluster``.

_NOTHING_TO_SERVE: Final = (
    "--secure-port: serves the controllers' health and metrics, but there are "
    "no controllers with --without-controllers; remove one of the two flags"
)


@click.group(
    "devcluster",
    cls=CommandLine,
    invoke_without_command=True,
    context_settings={"allow_extra_args": True},
)
@click.option(
    "--write-kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a kubeconfig to this file once the cluster runs; removed at the end.",
)
@settings_flags
@click.option(
    "--without-controllers",
    is_flag=True,
    help="Run the API server and the nodes only, to develop a controller against.",
)
@click.option(
    "--secure-port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Port of the controllers' endpoints, over HTTPS; 0 serves nothing.",
)
@click.pass_context
@click.make_pass_decorator(Registry)
def devcluster_command(
    build: Registry,
    ctx: click.Context,
    /,
    *,
    write_kubeconfig: Path | None,
    without_controllers: bool,
    secure_port: int,
    **chosen: Any,
) -> None:
    """Run an API server, nodes and the controllers until interrupted.

    With a COMMAND, they run until it ends. The COMMAND finds the cluster's kubeconfig
    in KUBECONFIG, and gets the signals that are sent to this program. This program
    ends with its exit code.

    The annotation devcluster/stopped=true of a node stops its kubelet, as if the node
    had lost its network; without the annotation it works again.
    """
    if ctx.invoked_subcommand is not None:
        return
    command: list[str] = ctx.meta[COMMAND]
    if without_controllers and secure_port:
        raise Failure([_NOTHING_TO_SERVE])
    if without_controllers:
        chosen["controllers"] = ()
    if chosen["verbosity"] is None:
        chosen["verbosity"] = -1 if command else 0
    settings = Settings(**chosen)
    ctx.exit(_run(build, settings, secure_port, write_kubeconfig, command))


def _run(
    build: Registry,
    settings: Settings,
    secure_port: int,
    kubeconfig: Path | None,
    command: list[str],
) -> int:
    """Run a cluster until it ends; return the exit code."""
    try:
        from controller_manager.devcluster.embedded import prepared  # noqa: PLC0415

        from .running import run_devcluster  # noqa: PLC0415
    except ImportError as error:
        needs_extra(error)
    preparing = prepared(
        settings, build, secure_port=secure_port, port_remedy="choose another --port"
    )
    with settings_failures(), preparing as made:
        logger = logger_of(settings.verbosity)
        return run_cluster(
            run_devcluster(
                settings, made, logger, kubeconfig=kubeconfig, command=command
            )
        )


devcluster_command.add_command(snapshot_command)
devcluster_command.add_command(restore_command)
