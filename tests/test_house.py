"""What is said of the project in its own papers is so."""

import re
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from controller_manager.cli.command import make_command
from tests.benchmarks.__main__ import main as benchmarks
from tests.simulation.__main__ import main as simulation

ROOT = Path(__file__).parents[1]


def test_the_wheel_has_every_package() -> None:
    """A new package must be named in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for path in (ROOT / "controller_manager").rglob("__init__.py")
    }
    named = set(project["tool"]["setuptools"]["packages"])
    assert {name for name in named if not name.endswith(".samples")} == found


def test_the_distribution_has_a_name_of_its_own() -> None:
    """On PyPI, "controller-manager" is another project; the command is ours."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    name = project["name"]
    assert name == "kube-controller-manager-python"
    assert project["optional-dependencies"]["test"][0] == (
        f"{name}[benchmarks,devcluster]"
    )
    assert project["scripts"] == {
        "controller-manager": "controller_manager.__main__:main"
    }


@pytest.mark.parametrize(
    "paper",
    ["README.md", "config/base/deployment.yaml", "Dockerfile"],
)
def test_every_flag_that_is_named_exists(paper: str) -> None:
    """Of the daemon or of the development cluster; other programs' are known."""
    runner = CliRunner()
    helps = "".join(
        runner.invoke(make_command(), arguments).output
        for arguments in (
            ["--help"],
            ["config", "--help"],
            ["completion", "--help"],
            ["devcluster", "--help"],
            ["demo", "--help"],
        )
    )
    for command in (simulation, benchmarks):
        helps += runner.invoke(command, ["--help"]).output
    existing = set(re.findall(r"--[a-z][a-z-]+", helps))
    others = {
        "--flag",  # stands for any
        "--image",  # kubectl
        "--replicas",
        "--cascade",
        "--validate",
        "--from",  # docker
        "--interval",
        "--retries",
        "--start-period",
        "--timeout",
        "--no-cache-dir",  # pip
        "--no-compile",
        "--yes",
        "--patches",  # kubeadm
    }
    named = set(re.findall(r"--[a-z][a-z-]+", (ROOT / paper).read_text()))
    assert named - others - existing == set()


def test_the_modules_are_in_their_documented_rooms() -> None:
    """The README's table of rooms lists every package."""
    readme = (ROOT / "README.md").read_text()
    packages = {
        path.parent.name for path in (ROOT / "controller_manager").glob("*/__init__.py")
    }
    assert {name for name in packages if f"`{name}/`" not in readme} == set()
