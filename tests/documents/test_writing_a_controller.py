"""A reader who follows docs/writing-a-controller.md to the letter gets a controller."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.distributions import completed
from tests.documents.facts import ROOT
from tests.documents.markdown import Page

PAGE = Page.at(ROOT / "docs" / "writing-a-controller.md")
IN_TREE = Page(PAGE.path, PAGE.section("A controller in this tree"))
SCRIPT = re.compile(
    r"^```sh\n(?P<commands>.*?)^```$(?:\n\nprint\n\n```text\n(?P<printed>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
CACHES = shutil.ignore_patterns(".*_cache")


def run(script: str, root: Path) -> str:
    """Run a script in a copy of the tree; return its output.

    Its programs are those of the environment in which this test runs.
    """
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    changed = {"PYTHONPATH": str(root), "COLUMNS": "80", "PATH": programs}
    bash = ("bash", "-euo", "pipefail", "-c")
    result = completed(*bash, script, cwd=root, env={**os.environ, **changed})
    assert result.returncode == 0, script + result.stdout + result.stderr
    return result.stdout


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    for name in ("controller_manager", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=CACHES)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.mark.slow
def test_the_page_followed_in_a_copy_gives_a_controller(scratch: Path) -> None:
    """Every file is written, and every command run, in the order of the page.

    The page's own test and the linter are satisfied.
    """
    files = dict(IN_TREE.files)
    assert len(files) == 3
    shown = 0
    position = 0
    for found in SCRIPT.finditer(IN_TREE.text):
        before = Page(PAGE.path, IN_TREE.text[position : found.start()])
        for path, content in before.files.items():
            (scratch / path).write_text(content)
        printed = run(found["commands"], scratch)
        if found["printed"]:
            assert _lines(printed) == _lines(found["printed"])
            shown += 1
        position = found.end()
    assert shown == 1
    assert [path for path in files if not (scratch / path).exists()] == []
    run("ruff check --no-cache " + " ".join(files), scratch)
    run("ruff format --no-cache --check " + " ".join(files), scratch)
    run("lint-imports", scratch)


def _lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]
