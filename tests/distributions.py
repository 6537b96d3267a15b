"""Distributions with controllers, laid out as if pip had installed them."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "own_controller"
OPERATORS = tuple(sorted((ROOT / "examples").glob("*_operator")))
PLUGIN = "controller_manager.devcluster.testing.plugin"


def completed(
    *command: str | Path, **options: Any
) -> "subprocess.CompletedProcess[str]":
    """Run a program to its end, whatever its exit code, and take what it prints."""
    return subprocess.run(
        command, capture_output=True, text=True, check=False, **options
    )


def plugin_arguments() -> tuple[str, ...]:
    """Return the arguments by which pytest loads our plugin, if it is not installed."""
    return () if entry_points(group="pytest11", name="devcluster") else ("-p", PLUGIN)


def install(
    directory: Path,
    name: str,
    source: str,
    group: str = "controller_manager.controllers",
    value: str = "CONTROLLER",
) -> None:
    """Write a distribution into a directory, as pip does.

    `source` becomes a module with the distribution's name; the entry point ``mine`` of
    a group names a value in it, by default a controller.
    """
    about = directory / f"{name}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{group}]\nmine = {name}:{value}\n")
    (directory / f"{name}.py").write_text(source)


def environment(*directories: Path) -> dict[str, str]:
    path = os.pathsep.join(map(str, (ROOT, *directories)))
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "80"}


def run_program(
    *arguments: str, directories: tuple[Path, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run controller-manager as a process until it ends."""
    program = (sys.executable, "-m", "controller_manager")
    return completed(*program, *arguments, env=environment(*directories))
