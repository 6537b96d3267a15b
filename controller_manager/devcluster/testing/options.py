"""The options of the pytest plugin, and the settings that they set."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest

from .cluster_error import ClusterError

_PREFIX: Final = "devcluster-"
_YES: Final = frozenset(("true", "yes", "on", "1"))
_NO: Final = frozenset(("false", "no", "off", "0"))


class Option(NamedTuple):
    """An option, which is a flag of pytest and a key of its ini file."""

    name: str
    metavar: str
    default: str
    help: str
    parse: Callable[[str], Any]

    @property
    def setting(self) -> str:
        """The field of ClusterSettings."""
        return self.name.removeprefix(_PREFIX).replace("-", "_")


def _truth(text: str) -> bool:
    lower = text.lower()
    if lower not in _YES | _NO:
        msg = "must be true or false"
        raise ValueError(msg)
    return lower in _YES


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        msg = "must be a whole number"
        raise ValueError(msg) from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        msg = "must be a number"
        raise ValueError(msg) from None


def _names(text: str) -> tuple[str, ...]:
    return tuple(each for each in text.replace(",", " ").split() if each != "none")


def _paths(text: str) -> tuple[str, ...]:
    parts = (each.strip() for each in text.replace("\n", ",").split(","))
    return tuple(filter(None, parts))


OPTIONS: Final = (
    Option("devcluster-nodes", "N", "3", "Number of nodes.", _whole),
    Option(
        "devcluster-controllers",
        "LIST",
        "*",
        "Controllers that run, as in --controllers of the manager, or none.",
        _names,
    ),
    Option(
        "devcluster-rbac",
        "BOOL",
        "false",
        "Let users do only what roles allow.",
        _truth,
    ),
    Option(
        "devcluster-time-factor",
        "F",
        "1",
        "Seconds that pass in the cluster while one passes outside.",
        _number,
    ),
    Option(
        "devcluster-pod-start-delay",
        "SECONDS",
        "0.1",
        "Time until a scheduled pod is Ready.",
        _number,
    ),
    Option(
        "devcluster-grace-scale",
        "F",
        "1",
        "Factor by which nodes shorten termination grace periods.",
        _number,
    ),
    Option(
        "devcluster-manifests",
        "PATH,...",
        "",
        "YAML files, or directories of them, whose objects exist from the start.",
        _paths,
    ),
    Option(
        "devcluster-feature-gates",
        "LIST",
        "upstream's",
        "Feature gates of API server and controllers, as NAME=BOOL,...",
        _names,
    ),
    Option(
        "devcluster-enable-admission-plugins",
        "LIST",
        "",
        "Admission plugins that are on besides those that are on by default.",
        _names,
    ),
    Option(
        "devcluster-disable-admission-plugins",
        "LIST",
        "",
        "Admission plugins that are off although they are on by default.",
        _names,
    ),
    Option(
        "devcluster-port", "PORT", "0", "Port of the API server; 0 for any.", _whole
    ),
    Option(
        "devcluster-data",
        "FILE",
        "in memory",
        "File in which the cluster keeps its state, else in memory.",
        str,
    ),
    Option(
        "devcluster-verbosity",
        "N",
        "-1",
        "Verbosity of the cluster's log on standard error; -1 logs nothing.",
        _whole,
    ),
)


def chosen_values(config: pytest.Config) -> dict[str, Any]:
    """Return the settings that options choose; the command line goes first.

    Raises ClusterError.
    """
    chosen: dict[str, Any] = {}
    for option in OPTIONS:
        if text := _given(config, option.name):
            try:
                chosen[option.setting] = option.parse(text)
            except ValueError as error:
                msg = f"{option.name}: {error}, not {text!r}"
                raise ClusterError(msg) from None
    return chosen


def _given(config: pytest.Config, name: str) -> str:
    """Return the text of an option, empty if it is not given; raises ClusterError."""
    if flag := config.getoption(f"--{name}"):
        return str(flag)
    try:
        return str(config.getini(name))
    except (pytest.UsageError, TypeError) as error:  # TOML, and not a text
        raise ClusterError(str(error)) from None
