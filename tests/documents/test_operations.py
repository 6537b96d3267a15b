"""The tables of controllers and the reference, and messages, are the program's."""

import re

from controller_manager.registry import registry
from tests.documents.facts import ROOT, strings
from tests.documents.markdown import Page, rows


def test_the_table_of_areas_names_every_controller_once() -> None:
    text = (ROOT / "docs/controllers/README.md").read_text()
    linked = re.findall(r"\[([a-z-]+)\]\((\S+)\.md\)", text.split("\n## ")[0])
    assert sorted(f"{name}-controller" for name, _ in linked) == sorted(
        registry().names
    )
    assert all(f"{name}-controller" == page for name, page in linked)


def test_every_feature_gate_is_explained_with_its_default() -> None:
    """Locked gates are not in the table: no flag can set them."""
    page = Page.at(ROOT / "docs" / "reference.md")
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


def test_the_messages_on_the_page_for_troubles_are_those_of_the_program() -> None:
    """They stand in quotation marks; a longer text of the program may contain them."""
    page = Page.at(ROOT / "docs" / "troubleshooting.md")
    shown = {span.strip('"') for span in page.spans if span.startswith('"')}
    assert len(shown) > 10
    assert {
        text for text in shown if not any(text in each for each in strings())
    } == set()
