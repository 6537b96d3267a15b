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
DOCKERFILE = (ROOT / "Dockerfile").read_text()


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


def test_the_images_python_is_among_the_classifiers() -> None:
    """And so is the lowest version that is allowed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: "
    versions = {
        each.removeprefix(prefix)
        for each in project["classifiers"]
        if each.startswith(prefix)
    }
    images = set(re.findall(r"^FROM python:([\d.]+)", DOCKERFILE, re.MULTILINE))
    assert len(images) == 1
    assert images < versions
    assert project["requires-python"].removeprefix(">=") in versions


def test_the_tests_mirror_the_packages() -> None:
    """Each package has its tests in one of the same name, each controller, too."""
    code, tests = ROOT / "controller_manager", ROOT / "tests"
    packages = {
        path.parent.relative_to(code)
        for pattern in ("*/__init__.py", "controllers/*/*/__init__.py")
        for path in code.glob(pattern)
    }
    without = {
        str(each)
        for each in packages
        if not any((tests / each).rglob("test_*.py"))
        or not (tests / each / "__init__.py").exists()
    }
    assert len(packages) > 20
    assert without == set()


def test_every_controller_has_its_properties_beside_its_tests() -> None:
    """And no tests are left of one that is gone."""
    code, tests = (
        ROOT / each / "controllers" for each in ("controller_manager", "tests")
    )
    controllers = {
        path.parent.relative_to(code) for path in code.glob("*/*/__init__.py")
    }
    found = {path.parent.relative_to(tests) for path in tests.glob("*/*/properties.py")}
    assert found == controllers


def test_ci_checks_all_that_must_hold() -> None:
    """With the tests as the README runs them, and on other versions of Python."""
    run = (ROOT / ".ci" / "run").read_text()
    steps = (
        ".ci/other-pythons",
        "ruff check .",
        "ruff format --check .",
        "mypy",
        "lint-imports",
        "python -m build --wheel",
    )
    lines = run.splitlines()
    found = [each for each in steps if any(line.startswith(each) for line in lines)]
    assert found == list(steps)


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
