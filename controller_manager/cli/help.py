"""Prints help as Cobra does, with the flags by section."""

import shutil
import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from controller_manager.options.flag import Flag
from controller_manager.registry import registry
from controller_manager.version import KUBERNETES_VERSION, NAME

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
        *_sections(width),
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


def flags_help_text(command: str, about: str, own: Mapping[str, str]) -> str:
    """Return the help of a subcommand that takes the daemon's flags.

    `own` has the texts of the flags that only it has.
    """
    width = _width()
    lines = [
        *textwrap.wrap(about, width),
        "",
        "Usage:",
        f"  {NAME} {command} [flags]",
        *(["", f"Flags of {command}:", ""] if own else []),
        *(
            line
            for head, text in own.items()
            for line in _described(f"  {head}", text, width)
        ),
        *_sections(width),
        *_described("  -h, --help", f"help for {command}", width),
    ]
    return "\n".join(lines) + "\n"


def _width() -> int:
    return max(shutil.get_terminal_size((80, 24)).columns, 60)


def _sections(width: int) -> list[str]:
    """Return the lines of all flags by section, and the heading of the global flags."""
    lines: list[str] = []
    flags_of_build = registry().flags
    for section in dict.fromkeys(flag.section for flag in flags_of_build):
        flags = [flag for flag in flags_of_build if flag.section == section]
        lines += ["", f"{section} flags:", "", *_section(flags, width)]
    return [*lines, "", "Global flags:", ""]


def _section(flags: Sequence[Flag], width: int) -> list[str]:
    lines: list[str] = []
    for flag in flags:
        short = f"  -{flag.short}, " if flag.short else "      "
        value = flag.value_name or _VALUE_NAMES.get(flag.type, flag.type)
        head = f"{short}--{flag.name}" + ("" if flag.type == "bool" else f" {value}")
        default = _shown_default(flag)
        text = flag.help + (f" (default {default})" if default else "")
        if inert := registry().flags.inert(flag):
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
