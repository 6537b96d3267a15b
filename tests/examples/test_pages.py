"""The pages show each example, and no code that the files do not have."""

import ast

from tests.documents.facts import ROOT
from tests.documents.markdown import Page

EXAMPLES = ROOT / "examples"


def test_the_page_shows_each_example_whole() -> None:
    """By a line with nothing but the link, in the order of the numbers."""
    lines = (ROOT / "docs" / "examples.md").read_text().splitlines()
    links = [each for each in lines if each.startswith("[examples/")]
    names = sorted(each.name for each in EXAMPLES.glob("e[0-9]_*.py"))
    assert links == [f"[examples/{each}](../examples/{each})" for each in names]


def test_the_tour_shows_what_the_operator_has() -> None:
    """Statement by statement; the page has them without indents."""
    tree = ast.parse((EXAMPLES / "e3_operator.py").read_text())
    own = {ast.unparse(each) for each in ast.walk(tree) if isinstance(each, ast.stmt)}
    blocks = [*Page.at(ROOT / "docs" / "custom-resources.md").blocks("python")]
    shown = [ast.unparse(each) for block in blocks for each in ast.parse(block).body]
    assert [each for each in shown if each not in own] == []
    assert len(blocks) == 7
