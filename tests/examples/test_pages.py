"""The pages show each example, and no code that the files do not have."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributions import environment
from tests.documents.facts import ROOT
from tests.documents.markdown import Page

EXAMPLES = ROOT / "examples"
FILES = sorted(EXAMPLES.glob("e[0-9]_*.py"))


def test_the_page_shows_each_example_whole() -> None:
    """By a line with nothing but the link, in the order of the numbers."""
    lines = (ROOT / "docs" / "examples.md").read_text().splitlines()
    links = [each for each in lines if each.startswith("[examples/")]
    paths = [f"examples/{each.name}" for each in FILES]
    assert links == [f"[{each}](../{each})" for each in paths]


def test_the_tour_shows_what_the_operator_has() -> None:
    """Statement by statement; the page has them without indents."""
    tree = ast.parse((EXAMPLES / "e3_operator.py").read_text())
    own = {ast.unparse(each) for each in ast.walk(tree) if isinstance(each, ast.stmt)}
    blocks = [*Page.at(ROOT / "docs" / "custom-resources.md").blocks("python")]
    shown = [ast.unparse(each) for block in blocks for each in ast.parse(block).body]
    assert [each for each in shown if each not in own] == []
    assert len(blocks) == 7


@pytest.mark.slow
@pytest.mark.parametrize("file", FILES, ids=lambda each: each.stem)
def test_each_is_a_program(file: Path, tmp_path: Path) -> None:
    """It runs from any directory, and has manifests with its permissions."""
    result = subprocess.run(
        [sys.executable, file, "manifests"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "kind: ClusterRole\n" in result.stdout


@pytest.mark.parametrize("file", FILES, ids=lambda each: each.stem)
def test_each_imports_the_two_modules_of_authors_alone(file: Path) -> None:
    tree = ast.walk(ast.parse(file.read_text()))
    modules = {str(each.module) for each in tree if isinstance(each, ast.ImportFrom)}
    deep = {each for each in modules if each.startswith("controller_manager")}
    assert deep <= {"controller_manager.sdk", "controller_manager.testing"}
