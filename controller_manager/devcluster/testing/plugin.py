"""The pytest plugin: a cluster for the tests of controllers.

pytest loads it wherever the package is installed. It imports nothing of a cluster
before a test asks for one.
"""

import os
import sys
from collections.abc import (
    AsyncIterator,
    Callable,
    Generator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest

from controller_manager.devcluster import settings

from . import SETTINGS, ClusterError, ClusterSettings

if TYPE_CHECKING:
    from controller_manager.runtime.descriptor import Descriptor

    from .cluster import DevelopmentCluster
    from .faults import Faults
    from .manager import VirtualManager

async_fixture: Callable[..., Any] = pytest.fixture
with suppress(ImportError):  # without it, pytest itself says what coroutines need
    async_fixture = import_module("pytest_asyncio").fixture


# The process of pytest


@contextmanager
def _plain_imports(config: pytest.Config) -> Iterator[None]:
    """Import modules without pytest's import hook while entered.

    pytest rewrites the assertions of each module of a distribution that has a plugin.
    The assertions of this package are not for tests, and rewriting a thousand modules
    takes more than a second where pytest cannot store the result. A package that is
    missing fails the test with one line.
    """
    hook: Any = getattr(config.pluginmanager, "rewrite_hook", None)
    place = sys.meta_path.index(hook) if hook in sys.meta_path else -1
    if place >= 0:
        del sys.meta_path[place]
    try:
        yield
    except ImportError as error:
        pytest.fail(f"devcluster: {settings.missing_extra(error)}", pytrace=False)
    finally:
        if place >= 0:
            sys.meta_path.insert(place, hook)


@contextmanager
def _one_line_errors() -> Iterator[None]:
    """Fail a test with one line for errors of settings and clusters while entered."""
    try:
        yield
    except ClusterError as error:
        pytest.fail(f"devcluster: {error}", pytrace=False)


_READ_ONCE: Final = (
    "kubernetes.config.kube_config",
    "kubernetes_asyncio.config.kube_config",
)
"""Modules that read KUBECONFIG when they are imported, and not again."""

_LOCATION: Final = "KUBE_CONFIG_DEFAULT_LOCATION"


@contextmanager
def _default_kubeconfig(path: Path) -> Iterator[None]:
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
    if (lower := text.lower()) not in _YES | _NO:
        raise ValueError
    return lower in _YES


def _names(text: str) -> tuple[str, ...]:
    return tuple(each for each in text.replace(",", " ").split() if each != "none")


def _paths(text: str) -> tuple[str, ...]:
    parts = (each.strip() for each in text.replace("\n", ",").split(","))
    return tuple(filter(None, parts))


class _Form(NamedTuple):
    """How values of a type are written; `expected` is for the text of an error."""

    metavar: str
    parse: Callable[[str], Any]
    expected: str = ""


_FORMS: Final[Mapping[Any, _Form]] = {
    bool: _Form("BOOL", _truth, "true or false"),
    int: _Form("N", int, "a whole number"),
    float: _Form("F", float, "a number"),
    settings.Names: _Form("LIST", _names),
    settings.Paths: _Form("PATH,...", _paths),
    settings.File: _Form("FILE", str),
}


class _PluginOption(NamedTuple):
    """An option, which is a flag of pytest and a key of its ini file."""

    setting: settings.Setting
    name: str
    metavar: str
    default: str
    help: str

    def parse(self, text: str) -> Any:
        """Return the value that a text means; raises ClusterError."""
        form = _FORMS[self.setting.type]
        try:
            return form.parse(text)
        except ValueError:
            msg = f"{self.name}: must be {form.expected}, not {text!r}"
            raise ClusterError(msg) from None


def _option(setting: settings.Setting, option: settings.Option) -> _PluginOption:
    is_time = setting.limits is not None and setting.limits.is_time
    metavar = "SECONDS" if is_time else _FORMS[setting.type].metavar
    return _PluginOption(
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


def _chosen_values(config: pytest.Config) -> dict[str, Any]:
    """Return the settings that options choose; the command line goes first.

    Raises ClusterError.
    """
    return {
        option.setting.name: option.parse(text)
        for option in OPTIONS
        if (text := _given(config, option.name))
    }


def _given(config: pytest.Config, name: str) -> str:
    """Return the text of an option, empty if it is not given; raises ClusterError."""
    if flag := config.getoption(f"--{name}"):
        return str(flag)
    try:
        return str(config.getini(name))
    except (pytest.UsageError, TypeError) as error:  # TOML, and not a text
        raise ClusterError(str(error)) from None


# Hooks and fixtures

_OWN: Final = "own_controllers"
"""The name of the marker, the key of the ini file and the fixture."""

_LOG: Final = pytest.StashKey[Callable[[], str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the cluster, for the command line and the ini file."""
    group = parser.getgroup("devcluster", "development cluster (controller-manager)")
    for option in OPTIONS:
        text = f"{option.help} (ini: {option.name}; default: {option.default})"
        group.addoption(f"--{option.name}", metavar=option.metavar, help=text)
        parser.addini(option.name, option.help, default="")
    parser.addini(_OWN, "Controllers of the fixture manager, as module:NAME.", "args")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers", f"{_OWN}(descriptor, ...): the controllers of the fixture manager"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run each test with the fixture `manager` on virtual time."""
    for item in items:
        if isinstance(item, pytest.Function) and _has_manager(item):
            item.add_marker("looptime")


def _has_manager(item: pytest.Function) -> bool:
    """Tell whether a test has the fixture of this module, and none of its name."""
    found = item._fixtureinfo.name2fixturedefs.get("manager")  # noqa: SLF001
    return found is not None and found[-1].func.__module__ == __name__


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the log of the controllers in the report of a test that failed."""
    if (
        call.when == "call"
        and call.excinfo is not None
        and (log := item.stash.get(_LOG, None))
    ):
        item.add_report_section("call", "log of the controllers", log())
    return (yield)


@pytest.fixture(scope="session")
def devcluster_settings(pytestconfig: pytest.Config) -> ClusterSettings:
    """Return the settings of the cluster, from the options; override it for others."""
    with _one_line_errors():
        return ClusterSettings(**_chosen_values(pytestconfig))


@pytest.fixture(scope="session")
def cluster(
    pytestconfig: pytest.Config, devcluster_settings: ClusterSettings
) -> "Iterator[DevelopmentCluster]":
    """Run a cluster that all tests of the session share; KUBECONFIG names it.

    Clients without an explicit cluster use this one, and no other cluster by mistake.
    """
    with _plain_imports(pytestconfig), _one_line_errors():
        from .cluster import DevelopmentCluster  # noqa: PLC0415

        made = DevelopmentCluster(devcluster_settings)
        made.start()
    try:
        with _default_kubeconfig(made.kubeconfig):
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


# A manager of one's own controllers


@pytest.fixture
def own_controllers(request: pytest.FixtureRequest) -> "Sequence[Descriptor]":
    """Return the controllers of `manager`: those of the marker, or of the ini file.

    Override it in `conftest.py` to choose them there.
    """
    if marker := request.node.get_closest_marker(_OWN):
        found: Sequence[Descriptor] = marker.args
        return found
    named = request.config.getini(_OWN)
    if not named:
        pytest.fail(
            f"no controllers: name them in the ini file ({_OWN} = module:CONTROLLER), "
            f"with the marker @pytest.mark.{_OWN}(CONTROLLER), or in a fixture of the "
            "same name",
            pytrace=False,
        )
    return [_named(each) for each in named]


def _named(text: str) -> "Descriptor":
    """Import a descriptor that is written as ``module:NAME``."""
    module, _, name = text.partition(":")
    try:
        found: Descriptor = getattr(import_module(module), name)
    except (AttributeError, ImportError, ValueError) as error:
        pytest.fail(f"{_OWN} {text}: {error}; write module:NAME", pytrace=False)
    return found


@async_fixture
async def manager(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    own_controllers: "Sequence[Descriptor]",
    devcluster_settings: ClusterSettings,
) -> "AsyncIterator[VirtualManager]":
    """Return a manager of your controllers, on virtual time and a cluster in memory.

    The cluster has the objects of ``--devcluster-manifests``. At the end the test fails
    if a controller was refused a request for lack of a permission.
    """
    with _plain_imports(request.config):
        from .manager import VirtualManager  # noqa: PLC0415

    monkeypatch.setenv("CONTROLLER_MANAGER_STRICT_READS", "true")
    with _one_line_errors():
        made = VirtualManager(own_controllers)
        request.node.stash[_LOG] = lambda: made.log
        if devcluster_settings.manifests:
            await made.create_manifests(*devcluster_settings.manifests)
    yield made
    await made.stop()
    try:
        made.check_requests()
    except AssertionError as error:
        pytest.fail(str(error), pytrace=False)
