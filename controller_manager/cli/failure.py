"""The errors that report bad input."""

import sys
from collections.abc import Sequence
from typing import Any

import click


class Failure(click.ClickException):
    """Bad input: one line for each problem, no traceback, exit code 1."""

    exit_code = 1

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems

    def show(self, file: Any = None) -> None:  # noqa: ANN401 - click's signature
        """Print the lines to standard error."""
        for problem in self.problems:
            click.echo(f"Error: {problem}", file=file or sys.stderr)


class CommandNotRun(Failure):
    """A command cannot be run; shells use the same exit code for that."""

    exit_code = 127
