"""The tables of README and of the page on operations are those of the program."""

import re

from controller_manager.registry import registry
from tests.documents.facts import ROOT
from tests.documents.markdown import Page, rows


def test_the_readme_names_every_controller_once() -> None:
    """With a link to its page; `-controller` is left out."""
    text = (ROOT / "README.md").read_text()
    linked = re.findall(r"\[([a-z-]+)\]\(docs/controllers/(\S+)\.md\)", text)
    assert sorted(f"{name}-controller" for name, _ in linked) == sorted(
        registry().names
    )
    assert all(f"{name}-controller" == page for name, page in linked)


def test_every_feature_gate_is_explained_with_its_default() -> None:
    """Locked gates are not in the table: no flag can set them."""
    page = Page.at(ROOT / "docs" / "operations.md")
    shown = {
        cells[0].strip("`"): cells[1]
        for cells in rows(page.section("Feature gates"))
        if not cells[0].startswith("`All")
    }
    assert shown == {
        gate.name: str(gate.default).lower()
        for gate in registry().gates
        if not gate.locked
    }
