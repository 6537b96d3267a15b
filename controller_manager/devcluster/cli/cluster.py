"""The subcommand ``devcluster``: flags, arguments, and the errors of users.

It imports no cluster before a subcommand runs, since the main help shows their help.
"""

import shlex
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import click
from click.core import ParameterSource

from controller_manager.cli.failure import Failure
from controller_manager.devcluster.settings import (
    File,
    Flag,
    Names,
    Paths,
    Setting,
    Settings,
    missing_extra,
    settings_of,
)
from controller_manager.observability.logs import Logger, make_logger, silent_logger
from controller_manager.options.durations import parse_duration
from controller_manager.options.options import OptionsError
from controller_manager.runtime.registry import Registry
from controller_manager.version import NAME

# The command line of ``devcluster`` and ``demo``, and the errors of their users.

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

COMMAND: Final = "controller_manager.command"
"""The key of the click context that holds the command after ``--``."""


class _Duration(click.ParamType[float]):
    """A duration as Go writes it, in seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the seconds; raises click.BadParameter."""
        if isinstance(value, float):
            return value
        try:
            seconds = parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if seconds < 0:
            self.fail("must not be negative", param, ctx)
        return seconds


def _settings_flags(command: FunctionT) -> FunctionT:
    for each in reversed(settings_of(Settings)):
        if each.flag is not None:
            command = _flag(each, each.flag)(command)
    return command


def _flag(setting: Setting, flag: Flag) -> Callable[[FunctionT], FunctionT]:
    kind = setting.type
    names = flag.names or ("--" + setting.name.replace("_", "-"),)
    more: dict[str, Any] = {"help": flag.help, "metavar": flag.metavar}
    if kind is bool:
        more["is_flag"] = True
    elif kind in (Names, Paths):
        more["multiple"] = True
    elif kind is not File and not flag.is_optional:
        more["default"] = setting.default if flag.default is None else flag.default
        more["show_default"] = True
    return click.option(*names, setting.name, type=_type_of(setting, flag), **more)


def _type_of(setting: Setting, flag: Flag) -> click.ParamType[Any] | type | None:
    kind, limits = setting.type, setting.limits
    if limits is not None and limits.is_time:
        return _Duration()
    if limits is not None and not flag.is_optional:
        makes = click.IntRange if kind is int else click.FloatRange
        return makes(limits.least, limits.most)
    if kind in (File, Paths):
        return click.Path(dir_okay=kind is Paths, path_type=Path)
    return str if kind is Names else kind


class _CommandLine(click.Group):
    """Takes a command after ``--``, and does not parse it; or has a subcommand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Split the arguments at the first ``--``."""
        position = args.index("--") if "--" in args else len(args)
        ctx.meta[COMMAND] = args[position + 1 :]
        rest = super().parse_args(ctx, args[:position])
        if args[position:] == ["--"]:
            raise Failure(["devcluster: there is no command after --"])
        return rest

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand; a command needs ``--`` before it."""
        if args[0] not in self.commands:
            message = (
                f"devcluster: unexpected argument {args[0]!r}; write a command after "
                f"--, as in: {NAME} devcluster -- {shlex.join(args)}"
            )
            raise Failure([message])
        _check_no_flags(ctx, args[0])
        return super().resolve_command(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        pieces = click.Command.collect_usage_pieces(self, ctx)
        return [*pieces, "[-- COMMAND [ARGS]...]"]


def _check_no_flags(ctx: click.Context, subcommand: str) -> None:
    """Raise Failure if flags of a cluster stand before a subcommand."""
    given = [
        parameter.opts[-1]
        for parameter in ctx.command.params
        if parameter.name is not None
        and ctx.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    ]
    if given:
        message = (
            f"{given[0]}: a flag of the cluster, not of {subcommand}; see "
            f"{NAME} devcluster {subcommand} --help"
        )
        raise Failure([message])


def logger_of(verbosity: int) -> Logger:
    """Return a logger; with a negative verbosity it logs nothing."""
    return make_logger(verbosity=verbosity) if verbosity >= 0 else silent_logger()


# Errors that a user can correct, in one line

ResultT = TypeVar("ResultT")


def needs_extra(error: ImportError) -> NoReturn:
    """Raise Failure with the command that installs a missing package."""
    raise Failure([missing_extra(error)])


@contextmanager
def _data_failures(prefix: str = "") -> Iterator[None]:
    """Turn errors of files with state into one line; `prefix` names the flag."""
    from controller_manager.devcluster.snapshot import DataError  # noqa: PLC0415

    try:
        yield
    except DataError as error:
        raise Failure([f"{prefix}{error}"]) from None


@contextmanager
def _settings_failures() -> Iterator[None]:
    """Turn errors of settings into lines that name the flag."""
    from controller_manager.devcluster.admission import PluginError  # noqa: PLC0415

    try:
        with _data_failures("--data "):
            yield
    except OptionsError as error:
        raise Failure(error.problems) from None
    except PluginError as error:
        raise Failure([f"devcluster: {error}"]) from error


def run_cluster(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    """Run a cluster until it ends; raises Failure."""
    # The main help imports this module for the help of the subcommands.
    from controller_manager.cli.daemon import run  # noqa: PLC0415
    from controller_manager.devcluster.cluster import KubeconfigError  # noqa: PLC0415
    from controller_manager.devcluster.manifests import ManifestError  # noqa: PLC0415
    from controller_manager.devcluster.registry import networking  # noqa: PLC0415

    try:
        with _data_failures():
            return run(main)
    except (KubeconfigError, ManifestError, networking.RangeError) as error:
        raise Failure([str(error)]) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise Failure([f"{where}{error.strerror or error}"]) from None


# The subcommands ``devcluster snapshot`` and ``devcluster restore``.

_FILE = click.Path(dir_okay=False, path_type=Path)


def _with_source(command: FunctionT) -> FunctionT:
    command = click.option(
        "--data", type=_FILE, help="The data file of a cluster that does not run."
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

    from . import running  # noqa: PLC0415

    with _data_failures():
        if data is not None:
            count = running.snapshot_of_data(data, file)
        else:
            source = _needed(kubeconfig, "snapshot")
            count = run(running.snapshot_of_cluster(source, file))
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

    from . import running  # noqa: PLC0415

    with _data_failures():
        if data is not None:
            count = running.restore_data(data, file)
        else:
            target = _needed(kubeconfig, "restore")
            restoring = running.restore_cluster(
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
    cls=_CommandLine,
    invoke_without_command=True,
    context_settings={"allow_extra_args": True},
)
@click.option(
    "--write-kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a kubeconfig to this file once the cluster runs; removed at the end.",
)
@_settings_flags
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
    try:
        from controller_manager.devcluster.cluster import prepared  # noqa: PLC0415

        from .running import run_devcluster  # noqa: PLC0415
    except ImportError as error:
        needs_extra(error)
    preparing = prepared(
        settings, build, secure_port=secure_port, port_remedy="choose another --port"
    )
    with _settings_failures(), preparing as made:
        logger = logger_of(settings.verbosity)
        return run_cluster(
            run_devcluster(
                settings, made, logger, kubeconfig=kubeconfig, command=command
            )
        )


devcluster_command.add_command(snapshot_command)
devcluster_command.add_command(restore_command)
