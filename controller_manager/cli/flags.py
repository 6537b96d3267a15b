"""Arguments as pflag reads them: what click does not know of."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from controller_manager.cli.failure import Failure
from controller_manager.options.config import Config
from controller_manager.options.parsing import OptionsError, parse, suggest
from controller_manager.registry import registry

PROBLEMS: Final = "controller_manager.problems"
"""Where the parser leaves what it could not make sense of, for one report."""


def split(args: list[str], commands: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Cut the arguments before the subcommand: those are the daemon's own."""
    takes_value = False
    for position, argument in enumerate(args):
        if takes_value:
            takes_value = False
        elif argument in commands:
            return args[:position], args[position:]
        else:
            takes_value = _takes_value(argument)
    return args, []


def normalised(ctx: click.Context, args: list[str]) -> list[str]:
    """Return arguments as click takes them; leave unknown ones as problems."""
    problems: list[str] = []
    known: list[str] = []
    takes_value = False
    for argument in args:
        if takes_value:
            # Whatever it looks like, it is the value of the flag before it.
            known[-1] = f"{known[-1]}={argument}"
            takes_value = False
        elif problem := _unknown(argument):
            problems.append(problem)
        else:
            known.append(_normalised(argument))
            takes_value = _takes_value(argument)
    ctx.meta[PROBLEMS] = problems
    # A short flag takes its value without the sign.
    return [re.sub(r"^-v=", "-v", each) for each in known]


def _takes_value(argument: str) -> bool:
    """Tell whether the next argument is the value of this one."""
    if not argument.startswith("-") or "=" in argument:
        return False
    flag = registry().flags.get(argument.lstrip("-").replace("_", "-"))
    return flag is not None and flag.type != "bool"


def _unknown(argument: str) -> str | None:
    if not argument.startswith("-") or argument in ("-", "--"):
        return None
    if not argument.startswith("--"):
        known = argument[1] in ("v", "h") or re.fullmatch(r"-\d+", argument)
        return (
            None if known else f"unknown shorthand flag: {argument[1]!r} in {argument}"
        )
    name = argument[2:].partition("=")[0].replace("_", "-")
    names = (*registry().flags.names, "help", "version")
    return None if name in names else f"unknown flag: --{name}{suggest(name, names)}"


def _normalised(argument: str) -> str:
    """Return a flag with dashes for underscores, and a value if it is a switch."""
    if not argument.startswith("--"):
        # pflag takes -v=2 as well as -v2 and -v 2.
        return re.sub(r"^-v=", "-v", argument)
    name, equals, value = argument[2:].partition("=")
    name = name.replace("_", "-")
    flag = registry().flags.get(name)
    if flag is not None and flag.type == "bool" and not equals:
        return f"--{name}=true"
    return f"--{name}{equals}{value}"


def daemon_options() -> list[click.Parameter]:
    """Return an option for each flag of the daemon."""
    return [
        click.Option(
            [f"--{flag.name}"] + ([f"-{flag.short}"] if flag.short else []),
            multiple=True,
            type=click.Path() if _is_path(flag.name) else str,
            help=flag.help,
        )
        for flag in registry().flags
    ]


def _is_path(name: str) -> bool:
    """Tell whether a shell should complete the value as a file's name."""
    return name.endswith(("-file", "kubeconfig", "-dir")) or name == "config"


def given_values(given: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the flags that were given, by name."""
    return {name.replace("_", "-"): texts for name, texts in given.items() if texts}


def make_config(given: Mapping[str, Sequence[str]], problems: Sequence[str]) -> Config:
    """Return the config that flags make; raises Failure with every problem."""
    try:
        return parse(given, registry(), problems)
    except OptionsError as error:
        raise Failure(error.problems) from None
