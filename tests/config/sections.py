"""The commands of the pages for operators, each with the test that runs it.

``python -m tests.config.sections`` shows each command and its test.
"""

from collections.abc import Iterator
from typing import Final

from tests.config.walk import all_lines, lines_of
from tests.documents.facts import ROOT
from tests.documents.markdown import Page

_DOCS: Final = ROOT / "docs"
SWAP: Final = Page.at(_DOCS / "swap.md")
OPERATIONS: Final = Page.at(_DOCS / "operations.md")
RECOVERY: Final = Page.at(_DOCS / "recovery.md")
TROUBLESHOOTING: Final = Page.at(_DOCS / "troubleshooting.md")
REFERENCE: Final = Page.at(_DOCS / "reference.md")
TESTING: Final = Page.at(_DOCS / "testing.md")
PAGES: Final = (SWAP, OPERATIONS, RECOVERY, TROUBLESHOOTING, REFERENCE)
"""The pages for operators whose commands run in tests, all of them."""

_BUILD: Final = "Build the image"

WALKS: Final[dict[str, tuple[tuple[Page, str], ...]]] = {
    "test_the_swap_in_five_steps_goes_there_and_back": (
        (OPERATIONS, _BUILD),
        (SWAP, "1. Doctor"),
        (SWAP, "2. Preview"),
        (SWAP, "3. Swap"),
        (SWAP, "4. Look"),
        (SWAP, "5. Back"),
    ),
    "test_the_trial_comes_and_goes": (
        (OPERATIONS, _BUILD),
        (OPERATIONS, "Versions of the API server"),
        (OPERATIONS, "Try it"),
        (OPERATIONS, "End the trial"),
    ),
    "test_two_controllers_move_and_come_back": (
        (OPERATIONS, _BUILD),
        (OPERATIONS, "Move two controllers"),
        (OPERATIONS, "Give the two controllers back"),
    ),
    "test_kube_controller_manager_is_replaced_and_comes_back": (
        (OPERATIONS, _BUILD),
        (OPERATIONS, "Replace kube-controller-manager"),
        (TROUBLESHOOTING, "Look first"),
        (OPERATIONS, "Give kube-controller-manager its place back"),
    ),
    "test_a_saved_manifest_brings_the_controllers_back": (
        (OPERATIONS, _BUILD),
        (OPERATIONS, "Move two controllers"),
        (RECOVERY, "See it"),
        (RECOVERY, "Put the saved manifest back"),
    ),
    "test_controllers_run_from_a_shell": (
        (RECOVERY, "Run the controllers from a shell"),
        (RECOVERY, "Only the two that were moved"),
    ),
    "test_the_recordings_are_played_on_a_cluster": (
        (TESTING, "Check a cluster against the recordings"),
    ),
    "test_profiles_are_taken_from_outside": ((REFERENCE, "Profiles"),),
    "test_everything_that_a_page_names_exists_and_works": (
        (REFERENCE, "Flags"),
        (REFERENCE, "Configuration file"),
    ),
}
"""The sections whose commands a test runs, in this order."""


def commands_with_tests() -> Iterator[tuple[str, str]]:
    """Yield each command of the pages with the first test that runs it, or ""."""
    for page in PAGES:
        ran: dict[str, str] = {}
        for test, sections in WALKS.items():
            for of_page, title in sections:
                if of_page is page:
                    for line in lines_of(page, title):
                        ran.setdefault(line, test)
        for line in all_lines(page):
            yield line, ran.get(line, "")


if __name__ == "__main__":
    for command, name in commands_with_tests():
        print(f"{name}: {command}")  # noqa: T201 - a command's output
