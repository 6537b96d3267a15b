"""The command and its subcommands."""

import difflib
import gc
import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Final, NoReturn

import click
import yaml
from click.shell_completion import add_completion_class, get_completion_class

from controller_manager.client.rest.transport import Transport
from controller_manager.clock import Clock
from controller_manager.observability.log_output import drop_unwritten_output
from controller_manager.observability.logs import Logger, make_logger
from controller_manager.options.config import Config
from controller_manager.options.document import dump
from controller_manager.registry import registry
from controller_manager.runtime.permissions import controller_roles
from controller_manager.runtime.registry import (
    Registry,
    RegistryError,
    UnknownControllerError,
)
from controller_manager.version import KUBERNETES_VERSION, NAME, VERSION

from . import flags
from .failure import Failure
from .flags import help_text
from .subcommands import EXPLAIN, found_command, found_names

_VERSION_LINE: Final = f"Kubernetes {KUBERNETES_VERSION} ({NAME} {VERSION})"

_PLUGIN: Final = "kubectl why"

_LAST_LINES: Final = 2.0
"""Seconds in which the last lines of the log are written."""


class DaemonGroup(flags.TakesFlags, click.Group):
    """Parses flags as pflag does, and prints help as Cobra does.

    A large subcommand is imported when it is called, or when its help is shown.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all subcommands, also of other packages."""
        return sorted({*super().list_commands(ctx), *_LARGE, *found_names()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a subcommand; an own one has precedence."""
        if cmd_name in _LARGE:
            return _large(cmd_name)
        return super().get_command(ctx, cmd_name) or found_command(cmd_name)

    def is_command(self, name: str) -> bool:
        """Tell whether there is a subcommand of this name."""
        return name in self.commands or name in _LARGE or name in found_names()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Convert pflag's syntax to click's; find unknown flags."""
        own, rest = flags.split(args, self.is_command, flags.build_of(ctx))
        return super().parse_args(ctx, [*self.taken(ctx, own), *rest])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand; suggest the nearest name for an unknown one."""
        if not self.is_command(args[0]):
            hint = _nearest(args[0], self.list_commands(ctx))
            message = f'unknown command "{args[0]}" for "{NAME}"; {hint}'
            raise Failure([*ctx.meta[flags.PROBLEMS], message])
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the description, the usage, the subcommands and all flags."""
        formatter.write(help_text(dict(self._short_helps(ctx))))

    def _short_helps(self, ctx: click.Context) -> Iterator[tuple[str, str]]:
        for name in self.list_commands(ctx):
            if name in _LARGE:
                yield name, _LARGE[name]
            elif (command := self.get_command(ctx, name)) is not None:
                yield name, command.get_short_help_str(200)


def _nearest(name: str, commands: Collection[str]) -> str:
    close = difflib.get_close_matches(name, commands, n=1)
    known = ", ".join(sorted(commands))
    return f"did you mean {close[0]}?" if close else f"there is: {known}"


def _print_version(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is None or ctx.resilient_parsing or value == "false":
        return
    if value not in ("true", "raw"):
        message = f"--version: invalid argument: must be true or false, not {value!r}"
        raise Failure([message])
    click.echo(_VERSION_LINE)
    ctx.exit()


def _version_option() -> click.Option:
    return click.Option(
        ["--version"],
        is_flag=False,
        flag_value="true",
        expose_value=False,
        is_eager=True,
        callback=_print_version,
        help="Print version information and quit.",
    )


def _daemon(**given: tuple[str, ...]) -> None:
    ctx = click.get_current_context()
    ctx.meta[EXPLAIN] = _explained
    values = flags.given_values(given)
    if ctx.invoked_subcommand is None:
        run_with(values, ctx.meta[flags.PROBLEMS], flags.build_of(ctx))
        return
    if ctx.meta[flags.PROBLEMS]:
        raise Failure(ctx.meta[flags.PROBLEMS])
    if values:
        listed = ", ".join(f"--{name}" for name in values)
        message = (
            f"{listed}: a flag of the daemon; write the flags of "
            f"{ctx.invoked_subcommand} after its name, see {NAME} "
            f"{ctx.invoked_subcommand} --help"
        )
        raise Failure([message])


@contextmanager
def _importing() -> Iterator[None]:
    """Import modules while entered: they make no garbage to look for.

    The looks take a fifth of the time until the caches of the daemon are synced.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def run_with(
    given: Mapping[str, Sequence[str]], problems: Sequence[str], build: Registry
) -> None:
    """Run the controllers of a build with flags until a signal.

    Raises Failure with all problems, those of the command line included.
    """
    config = flags.make_config(given, problems, build)
    logging = config.logging
    logger = make_logger(
        output=logging.format,
        verbosity=logging.verbosity,
        vmodule=logging.vmodule,
        info_stream=sys.stdout if logging.split_stream else None,
        queued=True,
    )
    log_flags(config, logger)
    with _importing():
        from .daemon import (  # noqa: PLC0415 - most modules
            run,
            run_daemon,
        )
    try:
        run(run_daemon(config, given, build, logger))
    finally:
        logger.close(_LAST_LINES)


def log_flags(config: Config, logger: Logger) -> None:
    """Log every flag with its value at verbosity 1 (component-base's PrintFlags)."""
    verbose = logger.v(1)
    for name, value in sorted(config.flags.items()):
        verbose.info(f"FLAG: --{name}={json.dumps(value, ensure_ascii=False)}")


def _show_config(**given: tuple[str, ...]) -> None:
    ctx = click.get_current_context()
    config = flags.make_config(flags.given_values(given), ctx.meta[flags.PROBLEMS])
    for warning in config.warnings:
        click.echo(f"Warning: {warning}", err=True)
    click.echo(dump(config.document), nl=False)


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "fish", "zsh"]))
def completion_command(shell: str) -> None:
    """Print a script that completes flags and commands in a shell."""
    completion = get_completion_class(shell)
    assert completion is not None  # noqa: S101 - the choice is click's own
    variable = f"_{NAME.replace('-', '_').upper()}_COMPLETE"
    click.echo(completion(make_command(), {}, NAME, variable).source())


@click.command("version")
def version_command() -> None:
    """Print the version of Kubernetes that this is, and its own."""
    click.echo(_VERSION_LINE)


@click.command("help")
@click.argument("command", required=False)
@click.pass_context
def help_command(ctx: click.Context, command: str | None) -> None:
    """Show the help of a command, or the main help."""
    parent = ctx.parent
    assert parent is not None  # noqa: S101 - it is a subcommand
    assert isinstance(parent.command, click.Group)  # noqa: S101 - the one below
    if command is None:
        click.echo(parent.get_help())
        return
    found = parent.command.get_command(ctx, command)
    if found is None:
        hint = _nearest(command, parent.command.list_commands(ctx))
        raise Failure([f'help: unknown command "{command}" for "{NAME}"; {hint}'])
    with click.Context(found, info_name=command, parent=parent) as about:
        click.echo(about.get_help())


async def _explained(
    transport: Transport, clock: Clock, namespace: str, target: str, width: int
) -> str:
    """Return the answer about a target as text, for subcommands of other packages."""
    from controller_manager.explain.answer import (  # noqa: PLC0415 - most modules
        answer,
    )

    return await answer(transport, clock, namespace, target, width)


@click.command("roles")
@click.option(
    "--feature-gates",
    default="",
    metavar="GATE=BOOL,...",
    help="The gates of the API server; it adds rights to some roles with some gates.",
)
@click.option(
    "--manifests",
    is_flag=True,
    help="Print all that a process with these controllers alone needs.",
)
@click.option(
    "--namespace", default="", help="With --manifests: where the process runs."
)
@click.option("--image", default="", help="With --manifests: the container's image.")
@click.option(
    "--cluster", default="", help="With --manifests: those of this other cluster."
)
@click.argument("controllers", nargs=-1, metavar="[CONTROLLER]...")
def roles_command(
    controllers: tuple[str, ...],
    feature_gates: str,
    manifests: bool,  # noqa: FBT001 - click gives it by name
    namespace: str,
    image: str,
    cluster: str,
) -> None:
    """Print the roles of all controllers, or of those that are named, as manifests.

    An API server creates the roles of kube-controller-manager's own controllers when
    it starts. Give those of other controllers to kubectl auth reconcile, which adds
    rights and takes none away. A controller that acts as the manager
    itself has no role.
    """
    try:
        chosen = registry().select(controllers or ("*",))
    except UnknownControllerError as error:
        raise Failure([f"roles: {error}"]) from None
    if manifests:
        from .operator import (  # noqa: PLC0415 - it imports what the daemon needs
            operator_build,
            print_manifests,
        )

        if not controllers:
            raise Failure(["roles --manifests: name the controllers of the process"])
        print_manifests(operator_build(tuple(chosen)), namespace, image, cluster)
        return
    given = {"feature-gates": [feature_gates]} if feature_gates else {}
    features = flags.make_config(given, ()).features
    with_roles = [each for each in chosen if not each.runs_first]
    documents = [
        each
        for one in with_roles
        for each in controller_roles(one.account, one.permissions_with(features))
    ]
    click.echo(yaml.safe_dump_all(documents, sort_keys=False), nl=False)


_SUBCOMMANDS: Final[Mapping[str, click.Command]] = {
    "completion": completion_command,
    "config": flags.FlagsCommand(
        "config",
        callback=_show_config,
        help="Print the effective configuration: defaults, file and flags.",
    ),
    "help": help_command,
    "roles": roles_command,
    "version": version_command,
}

_LARGE: Final = {
    "crds": "Print the definitions of custom resources, as manifests.",
    "doctor": "Say before a swap what would not work on the cluster, and why.",
    "new": "Write the project of a new operator into the directory NAME.",
    "explain": "Say why an object is stuck, and what resolves it; it only reads.",
    "preview": "Ask a daemon that runs with --preview.",
}
"""The subcommands that import most modules, and their lines of the main help."""


def _large(name: str) -> click.Command:
    """Import the subcommand ``NAME_command`` of the module of its name."""
    module = import_module(f".{name}", __package__)
    command: click.Command = getattr(module, f"{name}_command")
    return command


def make_command() -> click.Group:
    """Return the command with all its flags."""
    return DaemonGroup(
        NAME,
        commands=dict(_SUBCOMMANDS),
        callback=_daemon,
        params=[_version_option()],
        invoke_without_command=True,
        add_help_option=True,
        context_settings={"help_option_names": ["-h", "--help"], "obj": registry()},
    )


def main() -> None:
    """Run the command; the console script's entry point."""
    add_completion_class(flags.WordsOfBash)
    exit_with(_whole_command, NAME)


def _whole_command() -> click.Command:
    with _importing():
        registry()  # it imports the descriptor of each controller
    return make_command()


def kubectl_plugin() -> None:
    """Run ``explain`` as ``kubectl why``; kubectl finds the script by its name."""
    exit_with(partial(_large, "explain"), _PLUGIN)


def exit_with(make: Callable[[], click.Command], name: str) -> NoReturn:
    """Exit with the code of a command, after one line for each problem."""
    helps = ["-h", "--help"]
    try:
        code: int = make().main(
            prog_name=name, standalone_mode=False, help_option_names=helps
        )
    except click.Abort:
        sys.exit(1)
    except RegistryError as error:
        # There are no flags without the controllers: not even the help can be had.
        failure = Failure([str(error)])
        failure.show()
        sys.exit(failure.exit_code)
    except click.ClickException as error:
        if not isinstance(error, Failure):
            error = Failure([" ".join(error.format_message().split())])
        error.show()
        sys.exit(error.exit_code)
    finally:
        drop_unwritten_output()
    sys.exit(code)
