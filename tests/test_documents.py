"""The documents are correct: flags, commands, links, code, packages."""

from pathlib import Path
from typing import Any

import pytest

from tests.documents.checks import (
    CHECKS,
    command_problems,
    configuration_problems,
    definition_problems,
    flag_problems,
    link_problems,
    path_problems,
    python_problems,
)
from tests.documents.facts import ROOT, SOURCE
from tests.documents.markdown import Page, rows

PATHS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands write into a temporary directory, as on a machine without a pod."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.parametrize("path", PATHS, ids=named)
def test_everything_that_a_page_names_exists_and_works(path: Path) -> None:
    page = Page.at(path)
    problems = {check.__name__: check(page) for check in CHECKS}
    assert problems == {check.__name__: [] for check in CHECKS}


@pytest.mark.usefixtures("_elsewhere")
@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("Use `--no-such-flag`.", flag_problems),
        ("See [this](nowhere.md).", link_problems),
        ("See [this](README.md#no-such-heading).", link_problems),
        ("[`run`](controller_manager/clock.py)", definition_problems),
        ("See `controller_manager/nowhere.py`.", path_problems),
        ("See `tests/test_documents.py::test_nothing`.", path_problems),
        ("```python\nfrom controller_manager.cli import nothing\n```", python_problems),
        ("```python\nimport controller_manager.no.thing\n```", python_problems),
        ("```python\nfrom controller_manager.clock import x\n```", python_problems),
        ("```sh\ncontroller-manager no-such-command\n```", command_problems),
        ("```sh\ncontroller-manager --kube-api-qps=many\n```", command_problems),
        ("```sh\ncontroller-manager --controllers=nothing\n```", command_problems),
        ("```sh\necho a && controller-manager demo -x\n```", command_problems),
        ("```sh\nsh -c 'python -m tests.world --sed 1'\n```", command_problems),
        ("Run `pytest tests/nothing`.", command_problems),
        (
            "```yaml\nkind: KubeControllerManagerConfiguration\na: b\n```",
            configuration_problems,
        ),
    ],
)
def test_a_page_that_is_wrong_is_noticed(text: str, check: Any) -> None:
    assert check(Page(ROOT / "page.md", text)) != []


@pytest.mark.parametrize("path", ["config/base/deployment.yaml", "Dockerfile"])
def test_every_flag_in_a_manifest_exists(path: str) -> None:
    assert flag_problems(Page.at(ROOT / path)) == []


def test_every_page_is_reachable_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        path = waiting.pop()
        if path in reached or path.suffix != ".md" or not path.exists():
            continue
        reached.add(path)
        links = [link.partition("#")[0] for link in Page.at(path).links]
        waiting += [(path.parent / link).resolve() for link in links if link]
    assert sorted(map(named, set(PATHS) - reached)) == []


def test_every_difference_says_what_differs_and_why_that_is_harmless() -> None:
    page = Page.at(ROOT / "docs" / "differences.md")
    differences = rows(page.prose)
    assert len(differences) > 50
    assert [cells for cells in differences if len(cells) < 3 or not all(cells)] == []


def test_the_readme_is_short_and_says_how_to_run_the_quick_and_the_slow_tests() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 160
    assert "pip install -e '.[test]' && pytest\n" in text
    assert "\npytest -m slow\n" in text


def test_every_package_has_its_row_in_the_architecture() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert {name for name in packages if f"| `{name}/` |" not in text} == set()
