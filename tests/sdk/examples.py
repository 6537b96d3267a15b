"""Runs the examples of docstrings and of pages, also those that await."""

import ast
import traceback
from collections.abc import AsyncIterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from doctest import ELLIPSIS, DocTestParser, Example, OutputChecker
from inspect import CO_COROUTINE
from io import StringIO
from types import CodeType
from typing import Any

_CHECKER = OutputChecker()


@dataclass
class Failed:
    """An example that printed something else."""

    source: str
    wanted: str
    got: str


async def failures(text: str, names: dict[str, Any]) -> AsyncIterator[Failed]:
    """Run the examples of a text in order; yield those that print something else.

    They share `names`. A coroutine may be awaited, as in ``python -m asyncio``.
    """
    for example in DocTestParser().get_examples(text):
        got = await _output(example, names)
        wanted = example.want
        if example.exc_msg is not None:
            wanted = example.exc_msg
        if not _CHECKER.check_output(wanted, got, ELLIPSIS):
            yield Failed(example.source, wanted, got)


async def _output(example: Example, names: dict[str, Any]) -> str:
    """Return what an example prints, or the line of its exception."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    with redirect_stdout(StringIO()) as output:
        try:
            code: CodeType = compile(example.source, "<example>", "single", flags)
            if code.co_flags & CO_COROUTINE:
                await eval(code, names)  # noqa: S307 - our own text
            else:
                exec(code, names)  # noqa: S102 - our own text
        except Exception as error:  # noqa: BLE001 - the example may want it
            if example.exc_msg is None:
                traceback.print_exc()
            return f"{type(error).__name__}: {error}\n"
    return output.getvalue()
