"""Subcommands and controllers of other packages, and what is imported."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from controller_manager.cli.command import make_command
from controller_manager.cli.subcommands import GROUP
from controller_manager.registry import registry
from tests.distributions import install, run_program

COUNT = """
import click

@click.command("mine")
@click.argument("word")
@click.pass_context
def command(ctx, word):
    "Count the controllers."
    click.echo(f"{word}: {len(ctx.obj.names)} controllers")
"""
SPEAKING = f"print('imported'){COUNT}"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory whose distributions are installed."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(make_command(), arguments)


def about(name: str, output: str) -> str:
    """Return the line of a subcommand in the main help."""
    (line,) = (each for each in output.splitlines() if each.startswith(f"  {name} "))
    return " ".join(line.split())


def test_a_subcommand_runs_with_the_registry_of_the_build(package: Path) -> None:
    """It is in the help, and gets its own arguments."""
    install(package, "counting", COUNT, GROUP, "command")
    result = run("mine", "here")
    shown = f"here: {len(registry().names)} controllers\n"
    assert (result.exit_code, result.output) == (0, shown)
    assert about("mine", run("--help").output) == "mine Count the controllers."
    assert run("help", "mine").output == run("mine", "--help").output
    assert run("mnie").output == (
        'Error: unknown command "mnie" for "controller-manager"; did you mean mine?\n'
    )


ROWS = yaml.safe_load(Path(__file__).with_name("subcommands.yaml").read_text())


@pytest.mark.parametrize(("source", "problem"), ROWS["unusable"])
def test_an_unusable_one_is_one_line(package: Path, source: str, problem: str) -> None:
    install(package, "other", source, GROUP, "command")
    result = run("mine", "--flag", "word")
    assert (result.exit_code, result.output) == (
        1,
        f"Error: the subcommand mine {problem}\n",
    )
    helped = run("--help")
    assert helped.exit_code == 0
    assert about("mine", helped.output) == f"mine Not usable: it {problem}."


def test_the_extra_of_a_subcommand_is_named(package: Path) -> None:
    """So that a user can copy the command that installs it."""
    install(package, "other", "import no_such_thing", GROUP, "command [cluster]")
    assert run("mine").output == (
        "Error: the subcommand mine cannot be imported from other of other: "
        "ModuleNotFoundError: No module named 'no_such_thing'; install the package "
        "again, with everything it needs: pip install 'other[cluster]'\n"
    )


def test_two_packages_with_the_same_subcommand_are_named(package: Path) -> None:
    for name in ("first", "second"):
        install(package, name, COUNT, GROUP, "command")
    assert run("mine", "here").output == (
        "Error: the subcommand mine has the same name in first and second; uninstall "
        "one of them\n"
    )


def test_an_own_subcommand_stays(package: Path) -> None:
    """A package cannot take the name of a command of this program."""
    install(package, "other", COUNT, GROUP, "command")
    points = package / "other-1.0.dist-info" / "entry_points.txt"
    points.write_text(f"[{GROUP}]\nversion = other:command\n")
    assert run("version").output.startswith("Kubernetes v")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("--version",), ("config",), ("roles",)])
def test_other_commands_do_not_import_a_subcommand(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """Only its help and its call do."""
    install(tmp_path, "speaking", SPEAKING, GROUP, "command")
    result = run_program(*arguments, directories=(tmp_path,))
    assert (result.returncode, result.stderr) == (0, "")
    assert "imported" not in result.stdout
    called = run_program("mine", "here", directories=(tmp_path,))
    assert called.stdout.startswith("imported\nhere: ")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("--help",), ("config",), ("devcluster",)])
def test_a_package_that_cannot_be_imported_ends_every_command(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """There are no flags to parse without it."""
    install(tmp_path, "broken", "import no_such_thing")
    result = run_program(*arguments, directories=(tmp_path,))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "Error: the controller mine of broken cannot be imported from "
        "broken:CONTROLLER: ModuleNotFoundError: No module named 'no_such_thing'; "
        "repair or uninstall the package\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(("source", "problem"), ROWS["faults"])
def test_each_fault_is_one_line(tmp_path: Path, source: str, problem: str) -> None:
    install(tmp_path, "other", source)
    result = run_program("--help", directories=(tmp_path,))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"Error: {problem}\n"


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
