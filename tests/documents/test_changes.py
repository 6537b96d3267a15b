"""The files of unreleased changes can be gathered into the changelog."""

import re
import tomllib

import pytest

from controller_manager.version import VERSION
from tests.documents.facts import ROOT

DIRECTORY = ROOT / ".changes"
CHANGES = sorted(
    str(path.relative_to(DIRECTORY))
    for path in DIRECTORY.rglob("*")
    if path.is_file() and path != DIRECTORY / "README.md"
)


def declared(what: str, key: str) -> set[str]:
    """Return the parts or the types that the changelog has headings for."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        found = tomllib.load(file)["tool"]["towncrier"][what]
    return {str(item[key]) for item in found}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_has_a_part_a_name_a_type_and_a_text(name: str) -> None:
    found = re.fullmatch(r"([a-z]+)/\+([a-z0-9-]+)\.([a-z]+)\.md", name)
    assert found is not None, f".changes/{name} is not named PART/+NAME.TYPE.md"
    assert found.group(1) in declared("section", "path")
    assert found.group(3) in declared("type", "directory")
    assert (DIRECTORY / name).read_text().strip()


def test_each_release_has_a_date_and_the_version_under_way_has_none() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    dates = [re.fullmatch(r"(\S+) \(\d{4}-\d{2}-\d{2}\)", line) for line in headings]
    released = [found.group(1) for found in dates if found is not None]
    assert "0.2.0" in released
    assert VERSION not in released
