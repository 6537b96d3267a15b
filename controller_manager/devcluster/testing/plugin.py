"""The pytest plugin: a cluster for the tests of controllers.

pytest loads it wherever the package is installed. It imports nothing of a cluster
before a test asks for one.
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from controller_manager.devcluster.settings import (
    File,
    Names,
    Option,
    Paths,
    Setting,
    missing_extra,
)

from .thread import SETTINGS, ClusterError, ClusterSettings

if TYPE_CHECKING:
    from .cluster import DevelopmentCluster
    from .faults import Faults


# The process of pytest


@contextmanager
def plain_imports(config: pytest.Config) -> Iterator[None]:
    """Import modules without pytest's import hook while entered.

    pytest rewrites the assertions of each module of a distribution that has a plugin.
    The assertions of this package are not for tests, and rewriting a thousand modules
    takes more than a second where pytest cannot store the result.
    """
    hook = getattr(config.pluginmanager, "rewrite_hook", None)
    if hook not in sys.meta_path:
        yield
        return
    place = sys.meta_path.index(hook)
    sys.meta_path.remove(hook)
    try:
        yield
    finally:
        sys.meta_path.insert(place, hook)


_READ_ONCE: Final = (
    "kubernetes.config.kube_config",
    "kubernetes_asyncio.config.kube_config",
)
"""Modules that read KUBECONFIG when they are imported, and not again."""

_LOCATION: Final = "KUBE_CONFIG_DEFAULT_LOCATION"


@contextmanager
def default_kubeconfig(path: Path) -> Iterator[None]:
    """Let clients use a kubeconfig by default while entered.

    So no test can change another cluster by mistake.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", os.fspath(path))
        for name in _READ_ONCE:
            if hasattr(module := sys.modules.get(name), _LOCATION):
                patch.setattr(module, _LOCATION, os.fspath(path))
        yield


# Options

_PREFIX: Final = "devcluster-"
_YES: Final = frozenset(("true", "yes", "on", "1"))
_NO: Final = frozenset(("false", "no", "off", "0"))


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


class PluginOption(NamedTuple):
    """An option, which is a flag of pytest and a key of its ini file."""

    setting: Setting
    name: str
    metavar: str
    default: str
    help: str

    def parse(self, text: str) -> Any:
        """Return the value that a text means; raises ValueError."""
        return _PARSE[self.setting.type](text)


_PARSE: Final[dict[Any, Callable[[str], Any]]] = {
    bool: _truth,
    int: _whole,
    float: _number,
    Names: _names,
    Paths: _paths,
    File: str,
}
_METAVARS: Final = {
    bool: "BOOL",
    int: "N",
    float: "F",
    Names: "LIST",
    Paths: "PATH,...",
    File: "FILE",
}


def _option(setting: Setting, option: Option) -> PluginOption:
    is_time = setting.limits is not None and setting.limits.is_time
    metavar = "SECONDS" if is_time else _METAVARS[setting.type]
    return PluginOption(
        setting,
        _PREFIX + setting.name.replace("_", "-"),
        option.metavar or metavar,
        _shown(setting.default) if option.default is None else option.default,
        option.help,
    )


def _shown(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case tuple():
            return ",".join(value)
    return f"{value:g}"


OPTIONS: Final = tuple(
    _option(each, each.option) for each in SETTINGS if each.option is not None
)


def chosen_values(config: pytest.Config) -> dict[str, Any]:
    """Return the settings that options choose; the command line goes first.

    Raises ClusterError.
    """
    chosen: dict[str, Any] = {}
    for option in OPTIONS:
        if text := _given(config, option.name):
            try:
                chosen[option.setting.name] = option.parse(text)
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


# Hooks and fixtures


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the cluster, for the command line and the ini file."""
    group = parser.getgroup("devcluster", "development cluster (controller-manager)")
    for option in OPTIONS:
        text = f"{option.help} (ini: {option.name}; default: {option.default})"
        group.addoption(f"--{option.name}", metavar=option.metavar, help=text)
        parser.addini(option.name, option.help, default="")


@pytest.fixture(scope="session")
def devcluster_settings(pytestconfig: pytest.Config) -> ClusterSettings:
    """Return the settings of the cluster, from the options; override it for others."""
    try:
        return ClusterSettings(**chosen_values(pytestconfig))
    except ClusterError as error:
        pytest.fail(f"devcluster: {error}", pytrace=False)


@pytest.fixture(scope="session")
def cluster(
    pytestconfig: pytest.Config, devcluster_settings: ClusterSettings
) -> "Iterator[DevelopmentCluster]":
    """Run a cluster that all tests of the session share; KUBECONFIG names it.

    Clients without an explicit cluster use this one, and no other cluster by mistake.
    """
    with plain_imports(pytestconfig):
        try:
            from .cluster import DevelopmentCluster  # noqa: PLC0415
        except ImportError as error:
            pytest.fail(f"devcluster: {missing_extra(error)}", pytrace=False)
        made = DevelopmentCluster(devcluster_settings)
        try:
            made.start()
        except ClusterError as error:
            pytest.fail(f"devcluster: {error}", pytrace=False)
    try:
        with default_kubeconfig(made.kubeconfig):
            yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def kubeconfig(cluster: "DevelopmentCluster") -> Path:
    """Return the kubeconfig of the cluster, with an administrator's credentials."""
    return cluster.kubeconfig


@pytest.fixture
def namespace(cluster: "DevelopmentCluster") -> Iterator[str]:
    """Return a namespace for one test, which is removed with all its objects."""
    with cluster.namespace() as name:
        yield name


@pytest.fixture
def fresh_cluster(cluster: "DevelopmentCluster") -> "Iterator[DevelopmentCluster]":
    """Return the cluster; after the test, all its objects are as they were before."""
    before = cluster.snapshot()
    yield cluster
    cluster.restore(before)


@pytest.fixture
def faults(cluster: "DevelopmentCluster") -> "Iterator[Faults]":
    """Return the faults of the cluster; they are removed at the end of the test."""
    made = cluster.faults
    yield made
    made.clear()
