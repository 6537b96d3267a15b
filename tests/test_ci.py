"""CI runs the unit tests on the newest other version of Python on a machine."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "other-pythons"
TOOLS = ("bash", "cat", "cp", "dirname", "env", "grep", "mkdir", "mktemp", "rm", "seq")

# A fake interpreter: answers "-c", creates an environment, prints its arguments.
PYTHON = """#!/usr/bin/env bash
case "$*" in
  -c*) exit 0 ;;
  "-m venv"*)
    mkdir -p "$3/bin"
    cp "$0" "$3/bin/python"
    cp "${0%/*}/pip" "$3/bin" ;;
  *) echo "runs $*" ;;
esac
"""
PIP = """#!/usr/bin/env bash
echo '{says}'
exit {code}
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Return a machine with the Python of these tests, and with pyenv."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (programs / tool).symlink_to(found)
    (programs / "python3").symlink_to(sys.executable)
    return tmp_path


RUNS = (
    "runs -m pytest -q -m not slow and not nightly -p no:cacheprovider "
    "--ignore=tests/controllers "
    "--ignore=tests/conformance --ignore=tests/devcluster --ignore=tests/preview "
    "--ignore=tests/explain --ignore=tests/documents --ignore=tests/test_documents.py"
)
"""The output of the tests on a fake Python of another version."""


def run_on(machine: Path) -> tuple[int, list[str]]:
    """Return the exit code and the printed lines."""
    result = subprocess.run(
        ["bash", SCRIPT],
        env={
            "PATH": str(machine / "bin"),
            "PYENV_ROOT": str(machine / "pyenv"),
            "TMPDIR": str(machine),
            "HOME": os.devnull,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stderr == ""
    assert list(machine.glob("tmp.*")) == []
    return result.returncode, result.stdout.splitlines()


def install(machine: Path, says: str, code: int, version: str = "3.19") -> Path:
    """Add a version of Python whose pip prints a text; return its path."""
    programs = machine / "pyenv" / "versions" / f"{version}.1" / "bin"
    programs.mkdir(parents=True)
    for name, text in (
        (f"python{version}", PYTHON),
        ("pip", PIP.format(says=says, code=code)),
    ):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return programs / f"python{version}"


def test_a_machine_with_one_python_is_fine(machine: Path) -> None:
    """The output says so."""
    assert run_on(machine) == (0, ["no other version of Python is to be had here"])


def test_the_unit_tests_run_on_a_python_of_pyenv(machine: Path) -> None:
    """In an environment of its own."""
    python = install(machine, "", 0)
    assert run_on(machine) == (
        0,
        [
            f"-- Python 3.19, {python}",
            RUNS,
        ],
    )


def test_a_python_for_which_a_dependency_is_not_made_is_left_out(machine: Path) -> None:
    """One line names the dependency."""
    complaint = "ERROR: No matching distribution found for uvloop>=0.20"
    python = install(machine, complaint, 1)
    assert run_on(machine) == (
        0,
        [f"-- Python 3.19, {python}", f"Python 3.19 is left out: {complaint}"],
    )


def test_the_newest_python_that_has_all_dependencies_is_taken(machine: Path) -> None:
    """Older ones are left alone."""
    complaint = "ERROR: No matching distribution found for uvloop>=0.20"
    newest = install(machine, complaint, 1, "3.20")
    python = install(machine, "", 0)
    install(machine, "", 0, "3.18")
    assert run_on(machine) == (
        0,
        [
            f"-- Python 3.20, {newest}",
            f"Python 3.20 is left out: {complaint}",
            f"-- Python 3.19, {python}",
            RUNS,
        ],
    )


@pytest.mark.parametrize(
    "says",
    [
        "error: command gcc failed",
        "WARNING: Retrying (Retry(total=0))\nERROR: No matching distribution found",
    ],
)
def test_any_other_error_of_pip_fails(machine: Path, says: str) -> None:
    """An unreachable registry, for example, is no reason to leave a version out."""
    python = install(machine, says, 1)
    assert run_on(machine) == (
        1,
        [
            f"-- Python 3.19, {python}",
            *says.splitlines(),
            "Python 3.19: the dependencies cannot be installed",
        ],
    )
