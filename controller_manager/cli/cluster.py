"""The subcommands of the development cluster, which is an extra of the package."""

import shlex
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click
from click.core import ParameterSource

from controller_manager.cli.daemon import ResultT, run
from controller_manager.cli.failure import CommandNotRun, Failure
from controller_manager.cli.help import NAME
from controller_manager.cli.snapshots import (
    data_failures,
    restore_command,
    snapshot_command,
)
from controller_manager.observability.logs import Logger, make_logger, silent_logger
from controller_manager.options.durations import parse_duration
from controller_manager.options.parsing import OptionsError

if TYPE_CHECKING:
    from controller_manager.devcluster.data.data_file import DataFile
    from controller_manager.devcluster.keys import ClusterKeys
    from controller_manager.options.config import Config

_COMMAND: Final = "controller_manager.command"
"""The key of the click context that holds the command after ``--``."""

_NOTHING_TO_SERVE: Final = (
    "--secure-port: serves the controllers' health and metrics, but there are "
    "no controllers with --without-controllers; remove one of the two flags"
)


class _Duration(click.ParamType[float]):
    name = "duration"

    def convert(
        self,
        value: Any,  # noqa: ANN401 - click's signature
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        if isinstance(value, float):
            return value
        try:
            seconds = parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if seconds < 0:
            self.fail("must not be negative", param, ctx)
        return seconds


def _needs_extra(error: ImportError) -> NoReturn:
    message = (
        f"the development cluster needs the package {error.name}; install it in a "
        "checkout of this project with: pip install '.[devcluster]'"
    )
    raise Failure([message])


class _CommandLine(click.Group):
    """Takes a command after ``--``, and does not parse it; or has a subcommand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Split the arguments at the first ``--``."""
        position = args.index("--") if "--" in args else len(args)
        ctx.meta[_COMMAND] = args[position + 1 :]
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
        """Add the command to the usage line."""
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
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=6443,
    show_default=True,
    help="Port of the API server, on the loopback interface; 0 chooses a free port.",
)
@click.option(
    "--nodes",
    type=click.IntRange(0, 5000),
    default=3,
    show_default=True,
    help="Number of nodes; with 0, pods stay pending.",
)
@click.option(
    "--pod-start-delay",
    type=_Duration(),
    default="1s",
    show_default=True,
    help="Time from a pod's scheduling until it is Running and Ready.",
)
@click.option(
    "--grace-scale",
    type=click.FloatRange(0, 1),
    default=1.0,
    show_default=True,
    help="Factor by which the nodes shorten pods' termination grace periods.",
)
@click.option(
    "--data",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the state in this SQLite file, from which the cluster goes on when it "
    "is started again; without it, the state is in memory.",
)
@click.option(
    "--manifests",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Create the objects of this YAML file, or of the files in this directory; "
    "may be given more than once.",
)
@click.option(
    "--without-controllers",
    is_flag=True,
    help="Run the API server and the nodes only, to develop a controller against.",
)
@click.option(
    "--without-provisioner",
    is_flag=True,
    help="Make and delete no volumes for claims.",
)
@click.option(
    "--without-attacher",
    is_flag=True,
    help="Attach no volumes to nodes, and detach none.",
)
@click.option(
    "--without-resizer",
    is_flag=True,
    help="Leave volumes as they are when claims ask for more.",
)
@click.option(
    "--secure-port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Port of the controllers' endpoints, over HTTPS; 0 serves nothing.",
)
@click.option(
    "--rbac",
    is_flag=True,
    help="Authorize requests by roles: the administrator may do everything, each "
    "controller what its bootstrap role of upstream allows.",
)
@click.option(
    "--service-cluster-ip-range",
    metavar="CIDR[,CIDR]",
    default="10.96.0.0/12",
    show_default=True,
    help="The ranges of the services' addresses: one range, or one of each family.",
)
@click.option(
    "--enable-admission-plugins",
    metavar="NAME,...",
    multiple=True,
    help="Admission plugins that are on besides those that upstream has on by default.",
)
@click.option(
    "--disable-admission-plugins",
    metavar="NAME,...",
    multiple=True,
    help="Admission plugins that are off although upstream has them on by default.",
)
@click.option(
    "--feature-gates",
    metavar="NAME=BOOL,...",
    multiple=True,
    help="Feature gates of the API server and of the controllers, as upstream.",
)
@click.option(
    "-v",
    "--v",
    "verbosity",
    type=int,
    help="Log verbosity; 0 if not given, and with a COMMAND -1, which logs nothing.",
)
@click.pass_context
def devcluster_command(
    ctx: click.Context,
    /,
    *,
    write_kubeconfig: Path | None,
    data: Path | None,
    manifests: tuple[Path, ...],
    without_controllers: bool,
    secure_port: int,
    feature_gates: tuple[str, ...],
    verbosity: int | None,
    **cluster: Any,  # noqa: ANN401 - the fields of ClusterOptions
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
    command: list[str] = ctx.meta[_COMMAND]
    if verbosity is None:
        verbosity = -1 if command else 0
    if without_controllers and secure_port:
        raise Failure([_NOTHING_TO_SERVE])
    level = max(verbosity, 0)
    with (
        _opened(data) as file,
        _embedded(secure_port, level, feature_gates, file) as (config, keys),
    ):
        from controller_manager.devcluster.cluster import ClusterOptions  # noqa: PLC0415
        from controller_manager.devcluster.commands import run_devcluster  # noqa: PLC0415

        plugins = _plugins(cluster, with_accounts=not without_controllers)
        fields = {**cluster, "admission_plugins": plugins}
        options = ClusterOptions(
            features=config.features, keys=keys, data=file, **fields
        )
        code = _run_cluster(
            run_devcluster(
                options,
                config,
                _logger(verbosity),
                kubeconfig=write_kubeconfig,
                manifests=manifests,
                with_controllers=not without_controllers,
                command=command,
            )
        )
    ctx.exit(code)


def _plugins(cluster: dict[str, Any], *, with_accounts: bool) -> frozenset[str]:
    """Take the flags about admission plugins; return those that are on.

    Raises Failure.
    """
    from controller_manager.devcluster.admission.plugins import (  # noqa: PLC0415
        ON_BY_DEFAULT,
        WITHOUT_ACCOUNTS,
        PluginError,
        chosen_plugins,
    )

    default = ON_BY_DEFAULT if with_accounts else WITHOUT_ACCOUNTS
    enabled = cluster.pop("enable_admission_plugins")
    disabled = cluster.pop("disable_admission_plugins")
    try:
        return chosen_plugins(enabled, disabled, default)
    except PluginError as error:
        raise Failure([f"devcluster: {error}"]) from error


@contextmanager
def _opened(path: Path | None) -> "Iterator[DataFile | None]":
    """Yield the data file of a cluster, if it is to have one."""
    if path is None:
        yield None
        return
    try:
        from controller_manager.devcluster.data.data_file import (  # noqa: PLC0415
            DataFile,
        )
    except ImportError as error:
        _needs_extra(error)
    with data_failures("--data "):
        file = DataFile.open(path)
    with file:
        yield file


@contextmanager
def _embedded(
    secure_port: int,
    verbosity: int,
    feature_gates: tuple[str, ...],
    file: "DataFile | None",
) -> "Iterator[tuple[Config, ClusterKeys]]":
    """Yield the controllers' config, and the cluster's keys.

    The config names files with the keys, which exist while the context is entered.
    """
    try:
        import controller_manager.devcluster.commands  # noqa: F401, PLC0415 - an extra
        from controller_manager.devcluster.embedded import (  # noqa: PLC0415 - an extra
            embedded_config,
        )
        from controller_manager.devcluster.keys import (  # noqa: PLC0415 - an extra
            ClusterKeys,
        )
    except ImportError as error:
        _needs_extra(error)
    keys = file.keys if file is not None else ClusterKeys.generate()
    with TemporaryDirectory(prefix="devcluster-") as directory:
        flags = keys.write(Path(directory))
        try:
            config = embedded_config(secure_port, verbosity, feature_gates, flags)
        except OptionsError as error:
            raise Failure(error.problems) from None
        yield config, keys


devcluster_command.add_command(snapshot_command)
devcluster_command.add_command(restore_command)


@click.command("demo")
@click.option("-v", "--v", "verbosity", type=int, default=-1, help="Log verbosity.")
def demo_command(verbosity: int) -> None:
    """Show a deployment on a development cluster: apply, update, roll back, scale."""
    try:
        from controller_manager.devcluster.commands import (  # noqa: PLC0415 - an extra
            run_demo,
        )
    except ImportError as error:
        _needs_extra(error)
    _run_cluster(run_demo(_logger(verbosity)))


def _logger(verbosity: int) -> Logger:
    return make_logger(verbosity=verbosity) if verbosity >= 0 else silent_logger()


def _run_cluster(main: Coroutine[Any, Any, ResultT]) -> ResultT:
    from controller_manager.devcluster.child import CommandError  # noqa: PLC0415
    from controller_manager.devcluster.cluster import KubeconfigError  # noqa: PLC0415
    from controller_manager.devcluster.demo.demo import DemoError  # noqa: PLC0415
    from controller_manager.devcluster.kinds.networking.default_cidr import (  # noqa: PLC0415
        RangeError,
    )
    from controller_manager.devcluster.manifests import ManifestError  # noqa: PLC0415

    try:
        with data_failures():
            return run(main)
    except CommandError as error:
        raise CommandNotRun([str(error)]) from None
    except (DemoError, KubeconfigError, ManifestError, RangeError) as error:
        raise Failure([str(error)]) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise Failure([f"{where}{error.strerror or error}"]) from None
