"""Subcommands of other packages are found by their entry points."""

import sys
from pathlib import Path

import pytest
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


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        (
            "import no_such_thing",
            (
                "cannot be imported from other of other: ModuleNotFoundError: No "
                "module named 'no_such_thing'; install the package again, with "
                "everything it needs: pip install 'other'"
            ),
        ),
        (
            "command = 'mine'",
            "other:command of other is not a click.Command; repair the package",
        ),
    ],
)
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
    """Rather than one of them chosen."""
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
