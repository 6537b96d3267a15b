"""What is said of the project in its own papers is so."""

import re
import tomllib
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from controller_manager.cli.command import make_command
from tests.benchmarks.__main__ import main as benchmarks
from tests.conftest import pytest_xdist_auto_num_workers
from tests.simulation.__main__ import main as simulation

ROOT = Path(__file__).parents[1]


def test_every_directory_with_code_is_a_package() -> None:
    """Packages are found by their __init__.py: without it the wheel lacks them."""
    package = ROOT / "controller_manager"
    without = {
        str(path.parent.relative_to(ROOT))
        for path in package.rglob("*.py")
        if not (path.parent / "__init__.py").exists()
    }
    assert without == set()


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


def test_the_suite_runs_on_every_core(pytestconfig: pytest.Config) -> None:
    """And the README says how to leave out what is slow."""
    options = pytestconfig.getini("addopts")
    assert {"--numprocesses=auto", "--dist=worksteal"} <= set(options)
    markers = {each.partition(":")[0] for each in pytestconfig.getini("markers")}
    assert "slow" in markers
    assert 'pytest -m "not slow"' in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(
    ("kubeconfig", "workers"), [(None, None), ("~/.kube/config", 0)]
)
def test_on_a_real_cluster_one_scenario_plays_at_a_time(
    kubeconfig: str | None, workers: int | None
) -> None:
    """Each brings a manager, and two of them would act on the same objects."""
    config = Mock(spec=pytest.Config)
    config.getoption.return_value = kubeconfig
    assert pytest_xdist_auto_num_workers(config) == workers
    config.getoption.assert_called_once_with("--kubeconfig")


def test_the_modules_are_in_their_documented_packages() -> None:
    """The README's table lists every package."""
    readme = (ROOT / "README.md").read_text()
    packages = {
        path.parent.name for path in (ROOT / "controller_manager").glob("*/__init__.py")
    }
    assert {name for name in packages if f"`{name}/`" not in readme} == set()
