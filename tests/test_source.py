"""The source keeps promises that no other test sees."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
OF_REAL_TIME = {
    "tests/client/identity/test_trust.py",
    "tests/devcluster/test_restarts.py",
    "tests/e2e/test_workloads.py",
    "tests/serving/servers.py",
    "tests/serving/test_sni.py",
}
"""Tests that make certificates or objects whose times are relative to the real time."""


def test_every_directory_with_code_is_a_package() -> None:
    """Packages are found by their __init__.py: without it they are not in the wheel."""
    package = ROOT / "controller_manager"
    without = {
        str(path.parent.relative_to(ROOT))
        for path in package.rglob("*.py")
        if not (path.parent / "__init__.py").exists()
    }
    assert without == set()


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
    nodes = list(ast.walk(module))
    docstrings = {each.value for each in nodes if isinstance(each, ast.Expr)}
    return [
        each.value
        for each in nodes
        if isinstance(each, ast.Constant)
        and isinstance(each.value, str)
        and each not in docstrings
    ]


def test_no_test_depends_on_the_date() -> None:
    clocks = re.compile(r"datetime\.now\(|date\.today\(|toordinal\(|time\.time\(\)")
    found = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("*.py")
        if clocks.search(path.read_text()) and path != Path(__file__)
    }
    assert found == OF_REAL_TIME
