"""What is said of the project in its own metadata is so."""

import tomllib
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.conftest import pytest_xdist_auto_num_workers

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


def test_the_suite_runs_on_every_core(pytestconfig: pytest.Config) -> None:
    """And what is slow can be left out."""
    options = pytestconfig.getini("addopts")
    assert {"--numprocesses=auto", "--dist=worksteal"} <= set(options)
    markers = {each.partition(":")[0] for each in pytestconfig.getini("markers")}
    assert "slow" in markers


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
