"""Completion of values in a shell: the names of controllers."""

import click
from click.shell_completion import BashComplete, CompletionItem

from controller_manager.registry import registry


class WordsOfBash(BashComplete):
    """Reads the words of bash, which takes the sign = for a word of its own."""

    name = "bash"

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the cursor without signs =, and the word at it."""
        words, incomplete = super().get_completion_args()
        return [each for each in words if each != "="], incomplete


def complete_controllers(
    _: click.Context, __: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the completions of the last entry of ``--controllers``.

    The entries before it stay. An entry that begins with a dash disables.
    """
    before, comma, last = incomplete.rpartition(",")
    dash = "-" if last.startswith("-") else ""
    names = ["*", *registry().names] if not dash else registry().names
    return [
        CompletionItem(f"{before}{comma}{dash}{name}")
        for name in names
        if f"{dash}{name}".startswith(last)
    ]
