"""The project's metadata, directories and CI are consistent."""

import ast
import os
import re
import tomllib
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.conftest import pytest_xdist_auto_num_workers

ROOT = Path(__file__).parents[1]
OF_REAL_TIME = {
    "tests/client/test_trust.py",
    "tests/devcluster/data/test_restarts.py",
    "tests/devcluster/nodes/test_nodes.py",
    "tests/e2e/test_workloads.py",
    "tests/serving/servers.py",
    "tests/serving/test_sni.py",
}
"""Tests that make certificates or objects whose times are relative to the real time."""

DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_every_directory_with_code_is_a_package() -> None:
    """Packages are found by their __init__.py: without it they are not in the wheel."""
    package = ROOT / "controller_manager"
    without = {
        str(path.parent.relative_to(ROOT))
        for path in package.rglob("*.py")
        if not (path.parent / "__init__.py").exists()
    }
    assert without == set()


def test_the_docstring_of_a_package_names_all_its_modules() -> None:
    """A reader finds each module by the docstring, as ``module``."""
    missing = {}
    for package in (ROOT / "controller_manager").rglob("__init__.py"):
        modules = {each.stem for each in package.parent.glob("*.py")}
        modules |= {each.parent.name for each in package.parent.glob("*/__init__.py")}
        docstring = ast.get_docstring(ast.parse(package.read_text())) or ""
        named = set(re.findall(r"``(\w+)``", docstring))
        if unnamed := modules - named - {"__init__", "__main__"}:
            missing[str(package.parent.relative_to(ROOT))] = sorted(unnamed)
    assert missing == {}


def test_no_message_names_a_file_that_an_installation_lacks() -> None:
    """A wheel has the package alone: a message names a URL, or a command."""
    parts = ("config/", "docs/", "examples/", "tests/", ".md")
    path = re.compile(
        r"(?<![\w/.-])(config|docs|examples|tests)/\w|\b(?!guide\b)\w+\.md"
    )
    modules = [
        source
        for module in (ROOT / "controller_manager").rglob("*.py")
        if any(map((source := module.read_text()).__contains__, parts))
    ]
    found = [
        text
        for source in modules
        for text in _texts(ast.parse(source))
        if path.search(re.sub(r"https://\S+", "", text))
    ]
    assert found == []


def _texts(module: ast.Module) -> list[str]:
    """Return the texts of a module that are no docstrings."""
    nodes = list(ast.walk(module))
    docstrings = {each.value for each in nodes if isinstance(each, ast.Expr)}
    return [
        each.value
        for each in nodes
        if isinstance(each, ast.Constant)
        and isinstance(each.value, str)
        and each not in docstrings
    ]


def test_the_distribution_has_a_name_of_its_own() -> None:
    """On PyPI, "controller-manager" is another project; the command keeps its name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    name = project["name"]
    assert name == "kube-controller-manager-python"
    assert project["optional-dependencies"]["test"][0] == (
        f"{name}[benchmarks,devcluster]"
    )
    assert project["scripts"] == {
        "controller-manager": "controller_manager.__main__:main",
        "kubectl-why": "controller_manager.__main__:kubectl_plugin",
    }


def test_the_images_python_is_among_the_classifiers() -> None:
    """The lowest version that is allowed is a classifier, too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: "
    versions = {
        each.removeprefix(prefix)
        for each in project["classifiers"]
        if each.startswith(prefix)
    }
    images = set(
        re.findall(r"^ARG PYTHON_IMAGE=python:([\d.]+)", DOCKERFILE, re.MULTILINE)
    )
    assert len(images) == 1
    assert images < versions
    assert project["requires-python"].removeprefix(">=") in versions


def test_the_tests_mirror_the_packages() -> None:
    """Each package and each controller has its tests in a package of its name."""
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
    """No tests are left of a controller that was removed."""
    code, tests = (
        ROOT / each / "controllers" for each in ("controller_manager", "tests")
    )
    controllers = {
        path.parent.relative_to(code) for path in code.glob("*/*/__init__.py")
    }
    found = {path.parent.relative_to(tests) for path in tests.glob("*/*/properties.py")}
    assert found == controllers


def _steps(script: str) -> list[str]:
    """Return the first command below each heading of a script of CI."""
    text = (ROOT / ".ci" / script).read_text()
    bodies = [each.partition("\n")[2] for each in text.split("\nstep ")[1:]]
    commands = (
        line.partition(" 2>&1")[0]
        for body in bodies
        for line in body.splitlines()
        if line and not line.startswith(("echo", "readme_tests=", "tests_log="))
    )
    return list(commands)


def test_ci_checks_all_that_must_hold() -> None:
    """The nightly run has what takes too long for each commit."""
    assert _steps("run") == [
        'bash -c "$readme_tests"',
        "pytest -m slow",
        "promtool check rules config/monitoring/prometheus/*rules.yaml",
        "promtool test rules tests/config/alerts.yaml",
        "ruff check .",
        "ruff format --check .",
        "mypy",
        "lint-imports",
        "python -m build --wheel --outdir dist . >/dev/null",
        "ls dist/*.whl",
        'grep -E "^=*.* (passed|failed).* in " "$tests_log"',
        'rm -f "$tests_log"',
    ]
    assert _steps("nightly") == [
        "pip install -e '.[test]'",
        'pytest -m "" --seed "$seed"',
        ".ci/other-pythons",
        ".ci/image",
        'python -m tests.simulation --first "$seed" --seeds 20 --jobs 2',
    ]


def test_no_test_depends_on_the_date() -> None:
    """The same commit gives the same result on every day."""
    clocks = re.compile(r"datetime\.now\(|date\.today\(|toordinal\(|time\.time\(\)")
    found = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        if clocks.search(path.read_text()) and path != Path(__file__)
    }
    assert found == OF_REAL_TIME


def test_the_suite_runs_on_every_core(pytestconfig: pytest.Config) -> None:
    """Slow tests can be left out."""
    options = pytestconfig.getini("addopts")
    assert {"--numprocesses=auto", "--dist=worksteal"} <= set(options)
    markers = {each.partition(":")[0] for each in pytestconfig.getini("markers")}
    assert "slow" in markers


@pytest.mark.parametrize(
    ("options", "more"),
    [({"-m": "not slow and not nightly"}, 0), ({"-m": "slow"}, 1), ({"-m": ""}, 1)],
)
def test_the_quick_tests_run_on_each_core_and_the_slow_ones_on_one_process_more(
    options: dict[str, str], more: int
) -> None:
    """Slow tests wait for real time."""
    config = Mock(spec=pytest.Config)
    config.getoption.side_effect = {"--kubeconfig": None, **options}.__getitem__
    cores = len(os.sched_getaffinity(0))
    assert pytest_xdist_auto_num_workers(config) == cores + more


def test_on_a_real_cluster_one_scenario_plays_at_a_time() -> None:
    """Each starts a manager, and two managers would act on the same objects."""
    config = Mock(spec=pytest.Config)
    config.getoption.return_value = "~/.kube/config"
    assert pytest_xdist_auto_num_workers(config) == 0
    config.getoption.assert_called_once_with("--kubeconfig")
