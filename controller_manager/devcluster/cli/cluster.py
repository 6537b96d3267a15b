"""The subcommand ``devcluster``, with its subcommands ``snapshot`` and ``restore``."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from controller_manager.cli.failure import Failure
from controller_manager.options.options import OptionsError
from controller_manager.runtime.registry import Registry

from .command_line import (
    COMMAND,
    CommandLine,
    Duration,
    data_failures,
    logger_of,
    needs_extra,
    run_cluster,
)

if TYPE_CHECKING:
    from controller_manager.devcluster.certificates import ClusterKeys
    from controller_manager.devcluster.data.data_file import DataFile
    from controller_manager.options.config import Config


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
    type=Duration(),
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
    help="Keep the state in this file, from which the cluster goes on when it "
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
@click.make_pass_decorator(Registry)
def devcluster_command(  # noqa: PLR0913 - one for each kind of flag
    build: Registry,
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
    **cluster: Any,
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
    if verbosity is None:
        verbosity = -1 if command else 0
    if without_controllers and secure_port:
        raise Failure([_NOTHING_TO_SERVE])
    level = max(verbosity, 0)
    with (
        _opened(data) as file,
        _embedded(build, secure_port, level, feature_gates, file) as (config, keys),
    ):
        from controller_manager.devcluster.cluster import ClusterOptions  # noqa: PLC0415

        from .running import run_devcluster  # noqa: PLC0415

        plugins = _plugins(cluster, with_accounts=not without_controllers)
        fields = {**cluster, "admission_plugins": plugins}
        options = ClusterOptions(
            build=build, features=config.features, keys=keys, data=file, **fields
        )
        code = run_cluster(
            run_devcluster(
                options,
                config,
                logger_of(verbosity),
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
        from controller_manager.devcluster.data.data_file import DataFile  # noqa: PLC0415
    except ImportError as error:
        needs_extra(error)
    with data_failures("--data "):
        file = DataFile.open(path)
    with file:
        yield file


@contextmanager
def _embedded(
    build: Registry,
    secure_port: int,
    verbosity: int,
    feature_gates: tuple[str, ...],
    file: "DataFile | None",
) -> "Iterator[tuple[Config, ClusterKeys]]":
    """Yield the controllers' config, and the cluster's keys.

    The config names files with the keys, which exist while the context is entered.
    """
    try:
        import controller_manager.devcluster.cli.running  # noqa: F401, PLC0415 - an extra
        from controller_manager.devcluster.certificates import ClusterKeys  # noqa: PLC0415 - an extra
        from controller_manager.devcluster.embedded import embedded_config  # noqa: PLC0415 - an extra
    except ImportError as error:
        needs_extra(error)
    keys = file.keys if file is not None else ClusterKeys.generate()
    with TemporaryDirectory(prefix="devcluster-") as directory:
        flags = keys.write(Path(directory))
        try:
            config = embedded_config(
                build, secure_port, verbosity, feature_gates, flags
            )
        except OptionsError as error:
            raise Failure(error.problems) from None
        yield config, keys


devcluster_command.add_command(snapshot_command)
devcluster_command.add_command(restore_command)
