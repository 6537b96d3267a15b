"""The files of unreleased changes can be gathered into the changelog."""

import re
import tomllib

from controller_manager.version import VERSION
from tests.documents.facts import ROOT

DIRECTORY = ROOT / ".changes"
CHANGES = {
    str(path.relative_to(DIRECTORY)): path.read_text().strip()
    for path in sorted(DIRECTORY.rglob("*"))
    if path.is_file() and path != DIRECTORY / "README.md"
}


def declared(what: str, key: str) -> str:
    """Return a pattern of the parts or types that the changelog has headings for."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        found = tomllib.load(file)["tool"]["towncrier"][what]
    return "|".join(str(item[key]) for item in found)


def test_a_change_has_a_part_a_name_a_type_and_a_text() -> None:
    parts, types = declared("section", "path"), declared("type", "directory")
    pattern = re.compile(rf"({parts})/\+[a-z0-9-]+\.({types})\.md")
    right = {name for name, text in CHANGES.items() if text and pattern.fullmatch(name)}
    assert CHANGES.keys() - right == set(), "must be PART/+NAME.TYPE.md, with a text"


def test_a_version_that_is_released_gets_no_further_changes() -> None:
    """After a release, the first change raises the version."""
    text = (ROOT / "CHANGELOG.md").read_text()
    released = re.findall(r"^## (\S+) \(\d{4}-\d{2}-\d{2}\)$", text, re.MULTILINE)
    assert "0.2.0" in released
    assert VERSION not in released or not CHANGES
