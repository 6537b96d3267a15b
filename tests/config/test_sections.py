"""Each command of the pages for operators is run by a test."""

from tests.config import test_walks
from tests.config.sections import SWAP, WALKS, commands_with_tests
from tests.config.walk import all_lines
from tests.documents.facts import ROOT
from tests.documents.markdown import Page, anchor_of, rows

ELSEWHERE = {"test_everything_that_a_page_names_exists_and_works"}
"""Tests in other files."""


def test_a_test_runs_each_command() -> None:
    """A command in a section that no walk follows is found here."""
    commands = dict(commands_with_tests())
    assert len(commands) > 50
    assert [command for command, test in commands.items() if not test] == []


def test_the_page_on_the_swap_has_ten_lines_of_commands() -> None:
    assert len(all_lines(SWAP)) == 10


def test_the_walks_are_tests() -> None:
    assert {name for name in WALKS if not hasattr(test_walks, name)} == ELSEWHERE


def test_the_page_on_testing_says_which_test_follows_which_section() -> None:
    page = Page.at(ROOT / "docs" / "testing.md")
    shown = rows(page.section("Commands of the pages for operators"))
    assert shown == [
        [
            f"[{title}]({page.path.name}#{anchor_of(title)})",
            ", ".join(f"`{test}`" for test in tests),
        ]
        for (page, title), tests in _tests_of_sections().items()
    ]


def _tests_of_sections() -> dict[tuple[Page, str], list[str]]:
    found: dict[tuple[Page, str], list[str]] = {}
    for test, sections in WALKS.items():
        for section in sections:
            found.setdefault(section, []).append(test)
    return found
