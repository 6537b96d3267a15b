"""``controller-manager new`` writes an operator whose tests pass at once."""

import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from controller_manager.cli.command import make_command
from tests.distributions import completed, environment, plugin_arguments


def run(*arguments: str, cwd: Path) -> str:
    done = completed(sys.executable, "-m", *arguments, cwd=cwd, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_tests_and_linters_of_a_new_project_pass(tmp_path: Path) -> None:
    """Its manifests are those that its command prints."""
    run("controller_manager", "new", "website-operator", cwd=tmp_path)
    project = tmp_path / "website-operator"
    arguments = ("pytest", "-q", "-p", "no:cacheprovider", *plugin_arguments())
    assert "5 passed" in run(*arguments, cwd=project)
    run("ruff", "check", "--no-cache", ".", cwd=project)
    run("ruff", "format", "--no-cache", "--check", ".", cwd=project)
    run("mypy", cwd=project)
    manifests = (project / "manifests.yaml").read_text()
    assert run("website_operator", "manifests", cwd=project) == manifests


@pytest.mark.slow
def test_kind_and_group_are_the_authors(tmp_path: Path) -> None:
    options = ("--kind=WebShop", "--group=shops.example.org")
    run("controller_manager", "new", "shop", *options, cwd=tmp_path)
    texts = [
        each.read_text()
        for each in tmp_path.rglob("*")
        if each.suffix != ".pyc" and each.is_file()
    ]
    assert [text for text in texts if "<<" in text] == []
    definition = yaml.safe_load((tmp_path / "shop" / "crd.yaml").read_text())
    assert definition["metadata"]["name"] == "webshops.shops.example.org"
    assert definition["spec"]["names"]["kind"] == "WebShop"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["Shop"], "'Shop': a name has lower-case letters, digits and dashes"),
        (["shop", "--kind=shop"], "--kind 'shop': a kind is like Website"),
        (["shop", "--group=shop"], "--group 'shop': a group is a domain of yours"),
        (["there"], "there exists already; choose another name"),
    ],
)
def test_a_wrong_name_is_one_line(
    arguments: list[str], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    result = CliRunner().invoke(make_command(), ["new", *arguments])
    assert (result.exit_code, result.output) == (1, f"Error: new: {line}\n")
    assert [each.name for each in tmp_path.iterdir()] == ["there"]
