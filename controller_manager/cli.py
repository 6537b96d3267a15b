"""The command line, shaped as Cobra shapes kube-controller-manager's.

Without a subcommand this is the daemon. Flags are generated from the table in
`options`; values are checked there, all at once. Only this module picks
uvloop, and only it imports the development cluster, when that is asked for.
"""

import asyncio
import difflib
import random
import re
import shutil
import signal
import sys
import textwrap
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from controller_manager.app import USER_AGENT, ControllerManager, StartError
from controller_manager.client.credentials import ConfigError, load_credentials
from controller_manager.clock import SystemClock
from controller_manager.observability.logs import Logger, make_logger, silent_logger
from controller_manager.options import (
    FLAGS,
    FLAGS_BY_NAME,
    Config,
    Flag,
    OptionsError,
    parse,
    parse_duration,
    suggest,
)
from controller_manager.registry import check_selection
from controller_manager.serving.server import ServingError
from controller_manager.version import KUBERNETES_VERSION, VERSION

NAME: Final = "controller-manager"

_ABOUT: Final = (
    "The controller manager is a daemon that runs the core control loops of "
    "Kubernetes: each watches the shared state of the cluster through the apiserver "
    "and makes changes that move the current state towards the desired state. It "
    f"takes the flags of kube-controller-manager {KUBERNETES_VERSION} and leaves the "
    "same objects behind."
)
_NARROW: Final = 24
_PROBLEMS: Final = "controller_manager.problems"
"""Where the parser leaves what it could not make sense of, for one report."""


class Failure(click.ClickException):
    """Bad input: one line for each problem, no traceback, exit code 1."""

    exit_code = 1

    def __init__(self, problems: Sequence[str]) -> None:
        """Take the lines."""
        super().__init__("\n".join(problems))
        self.problems = problems

    def show(self, file: Any = None) -> None:  # noqa: ANN401 - click's signature
        """Print the lines to standard error."""
        for problem in self.problems:
            click.echo(f"Error: {problem}", file=file or sys.stderr)


class DaemonGroup(click.Group):
    """Parses flags as pflag does, and prints help as Cobra does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Normalise what pflag takes and click does not; find unknown flags."""
        own, rest = _split(args, self.commands)
        unknown = {each: problem for each in own if (problem := _unknown(each))}
        ctx.meta[_PROBLEMS] = list(unknown.values())
        known = [_normalised(each) for each in own if each not in unknown]
        return super().parse_args(ctx, [*known, *rest])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest subcommands when there is no such one."""
        if args[0] not in self.commands:
            close = difflib.get_close_matches(args[0], self.commands, n=1)
            known = ", ".join(sorted(self.commands))
            hint = f"did you mean {close[0]}?" if close else f"there is: {known}"
            message = f'unknown command "{args[0]}" for "{NAME}"; {hint}'
            raise Failure([*ctx.meta[_PROBLEMS], message])
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write description, usage, subcommands and flags by section."""
        width = max(shutil.get_terminal_size((80, 24)).columns, 60)
        lines = [
            *textwrap.wrap(_ABOUT, width),
            "",
            "Usage:",
            f"  {NAME} [flags]",
            f"  {NAME} [command]",
            "",
            "Available Commands:",
            *(
                f"  {name:<12}{self.commands[name].get_short_help_str(width)}"
                for name in self.list_commands(ctx)
            ),
        ]
        for section in dict.fromkeys(flag.section for flag in FLAGS):
            flags = [flag for flag in FLAGS if flag.section == section]
            lines += ["", f"{section} flags:", "", *_section(flags, width)]
        lines += [
            "",
            "Global flags:",
            "",
            *_described("  -h, --help", f"help for {NAME}", width),
            *_described("      --version", "Print version information and quit", width),
        ]
        formatter.write("\n".join(lines) + "\n")


def _split(args: list[str], commands: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Cut the arguments before the subcommand: those are the daemon's own."""
    takes_value = False
    for position, argument in enumerate(args):
        if takes_value:
            takes_value = False
        elif argument in commands:
            return args[:position], args[position:]
        elif argument.startswith("-") and "=" not in argument:
            flag = FLAGS_BY_NAME.get(argument.lstrip("-").replace("_", "-"))
            takes_value = flag is not None and flag.type != "bool"
    return args, []


def _unknown(argument: str) -> str | None:
    if not argument.startswith("-") or argument in ("-", "--"):
        return None
    if not argument.startswith("--"):
        known = argument[1] in ("v", "h") or re.fullmatch(r"-\d+", argument)
        return (
            None if known else f"unknown shorthand flag: {argument[1]!r} in {argument}"
        )
    name = argument[2:].partition("=")[0].replace("_", "-")
    names = (*FLAGS_BY_NAME, "help", "version")
    return None if name in names else f"unknown flag: --{name}{suggest(name, names)}"


def _normalised(argument: str) -> str:
    """Return a flag with dashes for underscores, and a value if it is a switch."""
    if not argument.startswith("--"):
        # pflag takes -v=2 as well as -v2 and -v 2.
        return re.sub(r"^-v=", "-v", argument)
    name, equals, value = argument[2:].partition("=")
    name = name.replace("_", "-")
    flag = FLAGS_BY_NAME.get(name)
    if flag is not None and flag.type == "bool" and not equals:
        return f"--{name}=true"
    return f"--{name}{equals}{value}"


def _section(flags: Sequence[Flag], width: int) -> list[str]:
    lines: list[str] = []
    for flag in flags:
        short = f"  -{flag.short}, " if flag.short else "      "
        value = flag.value_name or {"float32": "float"}.get(flag.type, flag.type)
        head = f"{short}--{flag.name}" + ("" if flag.type == "bool" else f" {value}")
        default = _shown_default(flag)
        text = flag.help + (f" (default {default})" if default else "")
        lines += _described(head, text, width)
    return lines


def _shown_default(flag: Flag) -> str:
    """Return the default as pflag shows it: nothing for an empty value."""
    if flag.default in (None, "0", "0s", "false"):
        return ""
    match flag.type:
        case "string":
            return f'"{flag.default}"'
        case "strings":
            return f"[{flag.default}]"
    return str(flag.default)


def _described(head: str, text: str, width: int) -> list[str]:
    indent = " " * 16
    wrapped = [
        line
        for paragraph in text.split("\n")
        for line in textwrap.wrap(paragraph, max(width - len(indent), _NARROW))
    ]
    return [head, *(indent + line for line in wrapped)]


def _print_version(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is None or ctx.resilient_parsing or value == "false":
        return
    if value != "true":
        message = f"--version: invalid argument: must be true or false, not {value!r}"
        raise Failure([message])
    click.echo(f"Kubernetes {KUBERNETES_VERSION} ({NAME} {VERSION})")
    ctx.exit()


def _daemon_options() -> list[click.Parameter]:
    options: list[click.Parameter] = [
        click.Option(
            [f"--{flag.name}"] + ([f"-{flag.short}"] if flag.short else []),
            multiple=True,
            type=str,
        )
        for flag in FLAGS
    ]
    options.append(
        click.Option(
            ["--version"],
            is_flag=False,
            flag_value="true",
            expose_value=False,
            is_eager=True,
            callback=_print_version,
        )
    )
    return options


def _daemon(**given: tuple[str, ...]) -> None:
    ctx = click.get_current_context()
    if ctx.invoked_subcommand is not None and ctx.meta[_PROBLEMS]:
        raise Failure(ctx.meta[_PROBLEMS])
    values = {name.replace("_", "-"): texts for name, texts in given.items() if texts}
    if ctx.invoked_subcommand is not None:
        if values:
            listed = ", ".join(f"--{name}" for name in values)
            message = (
                f"{listed}: a flag of the daemon; {ctx.invoked_subcommand} takes its "
                f"own flags, see {NAME} {ctx.invoked_subcommand} --help"
            )
            raise Failure([message])
        return
    config = _config(values, ctx.meta[_PROBLEMS])
    logger = make_logger(
        output=config.logging.format, verbosity=config.logging.verbosity
    )
    _run(_run_daemon(config, logger))


def _config(
    values: Mapping[str, Sequence[str]], known_problems: Sequence[str]
) -> Config:
    selection = [
        entry.strip()
        for text in values.get("controllers", ())
        for entry in text.split(",")
    ]
    unknown = check_selection(entry for entry in selection if entry)
    problems = [
        *known_problems,
        *(f"--controllers: {problem}" for problem in unknown),
    ]
    try:
        return parse(values, problems)
    except OptionsError as error:
        raise Failure(error.problems) from None


async def _run_daemon(config: Config, logger: Logger) -> None:
    from controller_manager.client.http import HTTPTransport  # noqa: PLC0415 - aiohttp

    clock = SystemClock()
    credentials = load_credentials(
        config.client.kubeconfig, config.client.master, clock
    )
    transport = HTTPTransport(credentials, USER_AGENT)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    logger.info("Starting", version=VERSION, kubernetes=KUBERNETES_VERSION)
    manager = ControllerManager(
        config,
        transport,
        clock=clock,
        rng=random.Random(),  # noqa: S311 - jitter and ids
        logger=logger,
    )
    try:
        await manager.run(stop)
    finally:
        await transport.close()


def _run(main: Coroutine[Any, Any, None]) -> None:
    """Run `main` on uvloop; turn what a user can mend into one line."""
    import uvloop  # noqa: PLC0415 - nothing else needs it

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main)
    except KeyboardInterrupt:
        raise Failure(["interrupted"]) from None
    except BaseExceptionGroup as group:
        raise _mendable(group) from group
    except (ConfigError, StartError, ServingError) as error:
        raise Failure([str(error)]) from None


def _mendable(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the one failure in a group that a user can mend, else the group."""
    known, unknown = group.split((ConfigError, StartError, ServingError))
    if known is not None and unknown is None:
        first: BaseException = known
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        return Failure([str(first)])
    return group


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
        f"the development cluster needs the package {error.name}; install it with: "
        f"pip install '{NAME}[devcluster]'"
    )
    raise Failure([message])


@click.command("devcluster")
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
    help="Port of the API server, on the loopback interface; 0 takes a free one.",
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
    "--secure-port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Port of the controllers' /healthz and /metrics; 0 serves nothing.",
)
@click.option("-v", "--v", "verbosity", type=int, default=0, help="Log verbosity.")
def devcluster_command(  # noqa: PLR0913 - one for each option
    *,
    write_kubeconfig: Path | None,
    port: int,
    nodes: int,
    pod_start_delay: float,
    grace_scale: float,
    manifests: tuple[Path, ...],
    without_controllers: bool,
    secure_port: int,
    verbosity: int,
) -> None:
    """Run an API server, nodes and the controllers until interrupted."""
    if without_controllers and secure_port:
        message = (
            "--secure-port: serves the controllers' health and metrics, and there are "
            "none with --without-controllers; leave one of the two out"
        )
        raise Failure([message])
    try:
        from controller_manager.devcluster.cluster import (  # noqa: PLC0415 - an extra
            ClusterOptions,
        )
        from controller_manager.devcluster.commands import (  # noqa: PLC0415 - an extra
            embedded_config,
            run_devcluster,
        )
    except ImportError as error:
        _needs_extra(error)
    options = ClusterOptions(
        port=port,
        nodes=nodes,
        pod_start_delay=pod_start_delay,
        grace_scale=grace_scale,
    )
    _run_cluster(
        run_devcluster(
            options,
            embedded_config(secure_port),
            make_logger(verbosity=verbosity),
            kubeconfig=write_kubeconfig,
            manifests=manifests,
            with_controllers=not without_controllers,
        )
    )


@click.command("demo")
@click.option("-v", "--v", "verbosity", type=int, default=-1, help="Log verbosity.")
def demo_command(verbosity: int) -> None:
    """Show rollouts on a development cluster: apply, update, roll back, scale."""
    try:
        from controller_manager.devcluster.commands import (  # noqa: PLC0415 - an extra
            run_demo,
        )
    except ImportError as error:
        _needs_extra(error)
    logger = make_logger(verbosity=verbosity) if verbosity >= 0 else silent_logger()
    _run_cluster(run_demo(logger))


def _run_cluster(main: Coroutine[Any, Any, None]) -> None:
    from controller_manager.devcluster.cluster import KubeconfigError  # noqa: PLC0415
    from controller_manager.devcluster.demo import DemoError  # noqa: PLC0415
    from controller_manager.devcluster.manifests import ManifestError  # noqa: PLC0415

    try:
        _run(main)
    except (DemoError, KubeconfigError, ManifestError) as error:
        raise Failure([str(error)]) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise Failure([f"{where}{error.strerror or error}"]) from None


def make_command() -> click.Group:
    """Return the command with all its flags."""
    group = DaemonGroup(
        NAME,
        callback=_daemon,
        params=_daemon_options(),
        invoke_without_command=True,
        add_help_option=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    group.add_command(devcluster_command)
    group.add_command(demo_command)
    return group


def main() -> None:
    """Run the command; the console script's entry point."""
    try:
        make_command().main(prog_name=NAME, standalone_mode=False)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.Abort:
        sys.exit(1)
    except click.ClickException as error:
        if not isinstance(error, Failure):
            error = Failure([error.format_message()])
        error.show()
        sys.exit(1)


if __name__ == "__main__":
    main()
