"""The files of unreleased changes can be gathered into the changelog."""

import re
import tomllib

import pytest

from controller_manager.version import VERSION
from tests.documents.facts import ROOT

CHANGES = sorted(path.name for path in (ROOT / ".changes").iterdir())


def declared_types() -> set[str]:
    """Return the types of changes that the changelog has headings for."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        declared = tomllib.load(file)["tool"]["towncrier"]["type"]
    return {str(item["directory"]) for item in declared}


@pytest.mark.parametrize("name", [name for name in CHANGES if name != "README.md"])
def test_a_change_has_a_name_a_type_and_a_text(name: str) -> None:
    found = re.fullmatch(r"\+([a-z0-9-]+)\.([a-z]+)\.md", name)
    assert found is not None, f".changes/{name} is not named +NAME.TYPE.md"
    assert found.group(2) in declared_types()
    assert (ROOT / ".changes" / name).read_text().strip()


def test_each_release_has_a_date_and_the_version_under_way_has_none() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    dates = [re.fullmatch(r"(\S+) \(\d{4}-\d{2}-\d{2}\)", line) for line in headings]
    released = [found.group(1) for found in dates if found is not None]
    assert "0.2.0" in released
    assert VERSION not in released
