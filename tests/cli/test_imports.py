"""Commands import only the modules that they need: most of a start is imports."""

import subprocess
import sys
from typing import Final

import click
import pytest

from controller_manager.cli.command import make_command

_LOADED: Final = (
    "import sys; from controller_manager import __main__; {}; print(*sys.modules)"
)
_DAEMON: Final = (
    "from controller_manager.registry import registry; "
    "import controller_manager.cli.daemon, controller_manager.client.wire.http; "
    "[each.resolve() for each in registry().select(['deployment-controller'])]"
)
_UNUSED: Final = frozenset(
    (
        "controller_manager.cli.doctor",
        "controller_manager.cel",
        "controller_manager.doctor",
        "controller_manager.explain",
        "controller_manager.preview",
        "jwt",
        "kubernetes_asyncio",
        "zoneinfo",
    )
)
"""Modules that a daemon with workloads never imports."""

_OF_DAEMON: Final = frozenset(
    (
        "aiohttp",
        "controller_manager.cli.daemon",
        "controller_manager.client.rest.client",
        "controller_manager.client.wire.http",
        "controller_manager.informers.informer",
        "controller_manager.manager.manager",
        "cryptography",
        "prometheus_client",
        "uvloop",
    )
)
"""Modules that only a daemon imports."""


def loaded_after(code: str) -> frozenset[str]:
    words = (sys.executable, "-c", _LOADED.format(code))
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return frozenset(done.stdout.split("\n")[-2].split())


@pytest.mark.parametrize(
    "arguments", [["help", "version"], ["version"], ["--version"], ["--help"]]
)
def test_version_and_help_need_no_module_of_the_daemon(arguments: list[str]) -> None:
    """They are answered from the descriptors of the controllers."""
    code = f"sys.argv[1:] = {arguments}; sys.exit = lambda code: None; __main__.main()"
    loaded = loaded_after(code)
    assert sorted(loaded & (_UNUSED | _OF_DAEMON)) == []


@pytest.mark.parametrize("name", ["doctor", "explain", "preview"])
def test_the_help_of_a_subcommand_is_that_of_the_main_help(name: str) -> None:
    command = make_command()
    assert isinstance(command, click.Group)
    with click.Context(command) as ctx:
        found = command.get_command(ctx, name)
        assert found is not None
        assert f" {found.get_short_help_str(200)}\n" in command.get_help(ctx)


def test_a_daemon_with_one_controller_imports_no_other_one() -> None:
    """The packages of the others have only their descriptors imported."""
    loaded = loaded_after(_DAEMON)
    reconcilers = {
        name
        for name in loaded
        if name.startswith("controller_manager.controllers.")
        and name.count(".") > 3
        and name.endswith(".controller")
    }
    assert reconcilers == {"controller_manager.controllers.apps.deployment.controller"}
    assert sorted(loaded & _UNUSED) == []


def test_a_development_cluster_imports_no_client_of_others() -> None:
    loaded = loaded_after("import controller_manager.devcluster.cli.running")
    assert "kubernetes_asyncio" not in loaded
