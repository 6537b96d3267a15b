"""The daemon's flags on the command line: syntax of pflag, completion, help, config."""

import re
import shutil
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, Final

import click
from click.shell_completion import BashComplete, CompletionItem

from controller_manager.options.config import Config
from controller_manager.options.flag import Flag
from controller_manager.options.flag_set import suggest
from controller_manager.options.options import OptionsError
from controller_manager.options.parsing import parse
from controller_manager.registry import registry
from controller_manager.runtime.registry import Registry
from controller_manager.version import KUBERNETES_VERSION, NAME

from .failure import Failure


def build_of(ctx: click.Context) -> Registry:
    """Return the controllers of the command, by default those of this build."""
    return ctx.find_object(Registry) or registry()


class WordsOfBash(BashComplete):
    """Reads the words of bash, which takes the sign = for a word of its own."""

    name = "bash"

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor without signs =, and the word at it."""
        words, incomplete = super().get_completion_args()
        return [each for each in words if each != "="], incomplete


def complete_controllers(
    ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the completions of the last entry of ``--controllers``.

    The entries before it stay. An entry that begins with a dash disables.
    """
    before, comma, last = incomplete.rpartition(",")
    dash = "-" if last.startswith("-") else ""
    names = build_of(ctx).names
    names = names if dash else ["*", *names]
    return [
        CompletionItem(f"{before}{comma}{dash}{name}")
        for name in names
        if f"{dash}{name}".startswith(last)
    ]


PROBLEMS: Final = "controller_manager.problems"
"""The key of the click context under which problems are collected for one report."""

_NAMED: Final = "controller_manager.named"
"""The key of the click context under which the names of given flags are."""


def split(
    args: list[str], is_command: Callable[[str], bool], build: Registry
) -> tuple[list[str], list[str]]:
    """Split the arguments into those of the daemon, and the subcommand with its own."""
    takes_value = False
    for position, argument in enumerate(args):
        if takes_value:
            takes_value = False
        elif not argument.startswith("-") and is_command(argument):
            return args[:position], args[position:]
        else:
            takes_value = _takes_value(argument, build)
    return args, []


def normalised(ctx: click.Context, args: list[str]) -> list[str]:
    """Return arguments in click's syntax; record unknown flags as problems."""
    build = build_of(ctx)
    problems: list[str] = []
    known: list[str] = []
    takes_value = False
    for argument in args:
        if takes_value:
            # It is the value of the flag before it, even if it looks like a flag.
            known[-1] = f"{known[-1]}={argument}"
            takes_value = False
        elif problem := _unknown(argument, build):
            problems.append(problem)
        else:
            known.append(_normalised(argument, build))
            takes_value = _takes_value(argument, build)
    ctx.meta[PROBLEMS] = problems
    # Click takes the value of a short flag without an equals sign.
    return [re.sub(r"^-v=", "-v", each) for each in known]


def _takes_value(argument: str, build: Registry) -> bool:
    """Tell whether the next argument is the value of this one."""
    if not argument.startswith("-") or "=" in argument:
        return False
    flag = build.flags.get(argument.lstrip("-").replace("_", "-"))
    return flag is not None and flag.type != "bool"


def _unknown(argument: str, build: Registry) -> str | None:
    if not argument.startswith("-") or argument in ("-", "--"):
        return None
    if not argument.startswith("--"):
        known = argument[1] in ("v", "h") or re.fullmatch(r"-\d+", argument)
        return (
            None if known else f"unknown shorthand flag: {argument[1]!r} in {argument}"
        )
    name = argument[2:].partition("=")[0].replace("_", "-")
    names = (*(each.name for each in build.flags.offered), "help", "version")
    return None if name in names else f"unknown flag: --{name}{suggest(name, names)}"


def _normalised(argument: str, build: Registry) -> str:
    """Return a flag with dashes for underscores; a boolean one gets a value."""
    if not argument.startswith("--"):
        # pflag accepts -v=2 as well as -v2 and -v 2.
        return re.sub(r"^-v=", "-v", argument)
    name, equals, value = argument[2:].partition("=")
    name = name.replace("_", "-")
    flag = build.flags.get(name)
    if flag is not None and flag.type == "bool" and not equals:
        return f"--{name}=true"
    return f"--{name}{equals}{value}"


def daemon_options(
    build: Registry, names: Collection[str] | None
) -> list[click.Parameter]:
    """Return an option for each flag of a build, or for those with these names.

    Flags that have a short form are always among them.
    """
    path = click.Path()
    return [
        click.Option(
            [f"--{flag.name}"] + ([f"-{flag.short}"] if flag.short else []),
            multiple=True,
            type=path if _is_path(flag.name) else str,
            help=flag.help,
            shell_complete=complete_controllers if flag.name == "controllers" else None,
        )
        for flag in build.flags.offered
        if names is None or flag.name in names or flag.short
    ]


class TakesFlags(click.Command):
    """A command that takes the daemon's flags, as pflag parses them.

    It makes the options of the flags that are given: there are more than a hundred. It
    makes all of them to complete an argument.
    """

    def taken(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Convert pflag's syntax to click's; find unknown flags."""
        words = normalised(ctx, args)
        named = frozenset(each[2:].partition("=")[0] for each in words)
        ctx.meta[_NAMED] = None if ctx.resilient_parsing else named
        return words

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options of flags, and those of the command's own."""
        options = daemon_options(build_of(ctx), ctx.meta.get(_NAMED))
        return [*options, *super().get_params(ctx)]


class FlagsCommand(TakesFlags):
    """A subcommand that takes the daemon's flags, and perhaps `own` ones."""

    own: ClassVar[Mapping[str, str]] = {}
    """The texts of its own flags, by their names and types."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Convert pflag's syntax to click's; find unknown flags."""
        return super().parse_args(ctx, self.taken(ctx, args))

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the flags as the main help does, with their types."""
        about = ctx.command.get_short_help_str(200)
        command = f"{NAME} {self.name}"
        formatter.write(flags_help_text(command, about, self.own, build_of(ctx)))


def _is_path(name: str) -> bool:
    """Tell whether a shell should complete the value as a file's name."""
    return name.endswith(("-file", "kubeconfig", "-dir")) or name == "config"


def given_values(given: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the flags that were given, by name."""
    return {name.replace("_", "-"): texts for name, texts in given.items() if texts}


def make_config(
    given: Mapping[str, Sequence[str]],
    problems: Sequence[str],
    build: Registry | None = None,
) -> Config:
    """Return the config for the given flags; raises Failure with all problems."""
    try:
        return parse(given, build or registry(), problems)
    except OptionsError as error:
        raise Failure(error.problems) from None


_ABOUT: Final = (
    "Runs the controllers of Kubernetes, with the flags of kube-controller-manager "
    f"{KUBERNETES_VERSION}. Each controller watches the cluster through the API "
    "server, and moves it towards the desired state."
)
_EXAMPLES: Final = (
    ("try it, on a cluster of its own", "demo"),
    ("a cluster for kubectl", "devcluster -- kubectl get nodes"),
    (
        "one controller, beside kube-controller-manager",
        (
            "--kubeconfig ~/.kube/config --leader-elect-resource-name=mine "
            "--controllers=ttl-after-finished-controller"
        ),
    ),
    ("the effective options: defaults, file and flags", "config --kube-api-qps=50"),
)
_MOST_USED: Final = (
    ("kubeconfig", "how to reach the API server; in a pod it is not needed"),
    ("controllers", "which controllers run: names, * for all, -NAME to leave one out"),
    (
        "leader-elect-resource-name",
        "the lease; beside another manager, name one of your own",
    ),
    ("use-service-account-credentials", "each controller acts as its own account"),
    ("authentication-kubeconfig", "the kubeconfig to authenticate callers of /metrics"),
    ("authorization-kubeconfig", "the kubeconfig to authorize callers of /metrics"),
    ("cluster-signing-cert-file", "the authority that signs certificates"),
    ("service-account-private-key-file", "the key that signs tokens"),
    ("config", "all options from a file"),
    ("v", "how much is logged, 0 to 9"),
)
_NARROW: Final = 24
_VALUE_NAMES: Final = {
    "float32": "float",
    "gates": "strings",
    "namedCertKey": "namedCertKey",
    "pairs": "mapping",
}


def help_text(commands: Mapping[str, str]) -> str:
    """Return the flags that are used most, then all flags by section."""
    width = _width()
    lines = [
        *textwrap.wrap(_ABOUT, width),
        "",
        "Usage:",
        f"  {NAME} [flags]",
        f"  {NAME} [command]",
        "",
        "Examples:",
        *_examples(width, commands),
        "",
        "Available Commands:",
        *(f"  {name:<12}{text}" for name, text in commands.items()),
        "",
        "Flags that are used most:",
        *(f"  {f'--{name}':<36}{text}" for name, text in _MOST_USED),
        "",
        "All flags, by section:",
    ]
    lines += [
        *_sections(width, registry()),
        *_described("  -h, --help", f"help for {NAME}", width),
        *_described("      --version", "Print version information and quit", width),
        "",
        f'Use "{NAME} help [command]" for more information about a command.',
    ]
    return "\n".join(lines) + "\n"


def _examples(width: int, commands: Collection[str]) -> list[str]:
    """Return the lines of the examples: the purpose and the command of each.

    An example of a subcommand that is not installed is left out.
    """
    lines = []
    for purpose, arguments in _EXAMPLES:
        first = arguments.split()[0]
        if not first.startswith("-") and first not in commands:
            continue
        command = textwrap.wrap(
            f"{NAME} {arguments}", width - 8, break_on_hyphens=False
        )
        lines += [f"  # {purpose}", "  " + " \\\n      ".join(command)]
    return lines


def flags_help_text(
    command: str,
    about: str,
    own: Mapping[str, str],
    build: Registry,
    commands: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Return the help of a command that takes the flags of a build.

    `own` has the texts of the flags that only it has, and `commands` its subcommands.
    """
    width = _width()
    lines = [
        *textwrap.wrap(about, width),
        "",
        "Usage:",
        f"  {command} [flags]",
        *(["", "Available Commands:"] if commands else []),
        *(f"  {name:<12}{text}" for name, text in commands.items()),
        *(["", f"Flags of {command.rpartition(' ')[2]}:", ""] if own else []),
        *(
            line
            for head, text in own.items()
            for line in _described(f"  {head}", text, width)
        ),
        *_sections(width, build),
        *_described("  -h, --help", f"help for {command.rpartition(' ')[2]}", width),
    ]
    return "\n".join(lines) + "\n"


def _width() -> int:
    return max(shutil.get_terminal_size((80, 24)).columns, 60)


def _sections(width: int, build: Registry) -> list[str]:
    """Return the lines of all flags by section, and the heading of the global flags."""
    lines: list[str] = []
    offered = build.flags.offered
    for section in dict.fromkeys(flag.section for flag in offered):
        flags = [flag for flag in offered if flag.section == section]
        lines += ["", f"{section} flags:", "", *_section(flags, width, build)]
    return [*lines, "", "Global flags:", ""]


def _section(flags: Sequence[Flag], width: int, build: Registry) -> list[str]:
    lines: list[str] = []
    for flag in flags:
        short = f"  -{flag.short}, " if flag.short else "      "
        value = flag.value_name or _VALUE_NAMES.get(flag.type, flag.type)
        head = f"{short}--{flag.name}" + ("" if flag.type == "bool" else f" {value}")
        default = _shown_default(flag)
        text = flag.help + (f" (default {default})" if default else "")
        if inert := build.flags.inert(flag):
            text += f" Has no effect: {inert}."
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
