"""The shell: its command lines, and scripts of commands whose end is known.

A script may have ``;``, ``&&``, ``||``, ``exit``, ``exec``, ``set -e``, ``trap exit
TERM``, and loops such as ``while true; do sleep 1; done``. Any other part makes all of
it unknown.
"""

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from .annotations import FOREVER
from .commands import Run, Write, simple_run

_SHELLS: Final = frozenset(("ash", "bash", "dash", "sh"))
_SIGTERM: Final = frozenset(("15", "SIGTERM", "TERM"))
_SEPARATORS: Final = frozenset((";", "&&", "||"))
_PUNCTUATION: Final = ";&|<>()"
_OPTIONS: Final = re.compile("-[celux]*o?")
"""Options of a shell that change nothing here, besides ``-c`` and ``-e``."""
_LONGEST: Final = 10_000
"""A script of more characters is unknown: reading it would take the server's time."""
_MOST_LOOPS: Final = 50
"""A script with more loops is unknown: nested loops would take the server's stack."""
_DEEPEST: Final = 8
"""A script in a script in a script is unknown beyond this depth."""


class _ShellLine(Struct, frozen=True):
    """The command line of a shell: its script, and whether a failure ends that.

    Without a script (`None`) the shell reads its input.
    """

    script: str | None
    ends_on_failure: bool


class _Statement(Struct, frozen=True):
    """A command of a script, with the separator before it.

    A loop has its condition as `words`, and the statements of its `body`.
    """

    separator: str
    words: Sequence[str]
    body: tuple["_Statement", ...] | None = None


def run_of(
    command: Sequence[str], *, has_input: bool = False, depth: int = 0
) -> Run | None:
    """Return the run of a command line, `None` for an unknown one.

    A shell or ``cat`` that reads its input ends at once, unless it `has_input` that
    stays open. `depth` is the number of shells around the command.
    """
    if PurePosixPath(command[0]).name == "busybox" and command[1:]:
        command = command[1:]
    name = PurePosixPath(command[0]).name
    if list(command[1:]) in ([], ["-"]) and name == "cat":
        return Run(FOREVER if has_input else 0.0)
    if name not in _SHELLS:
        return simple_run(command)
    line = _shell_line(command[1:])
    if line is None or depth >= _DEEPEST:
        return None
    if line.script is None:
        return Run(FOREVER if has_input else 0.0)
    statements = _statements(line.script)
    if statements is None:
        return None
    return _Script(line, depth, has_input=has_input).run(statements)


def _shell_line(words: Sequence[str]) -> _ShellLine | None:
    """Return the options and the script of a shell, `None` for unknown ones."""
    letters, position = "", 0
    while position < len(words) and words[position].startswith("-"):
        if words[position] == "--":
            position += 1
            break
        if not _OPTIONS.fullmatch(words[position]) or len(words[position]) < 2:
            return None
        letters += words[position]
        position += 2 if words[position].endswith("o") else 1
    rest = words[position:]
    if "c" in letters:
        return _ShellLine(rest[0], "e" in letters) if rest else None
    return None if rest else _ShellLine(None, "e" in letters)


class _Script:
    """One run of a script in a shell."""

    def __init__(self, line: _ShellLine, depth: int, *, has_input: bool) -> None:
        self._ends_on_failure = line.ends_on_failure
        self._depth = depth
        self._has_input = has_input
        self._traps_signals = False
        self._longest = 0.0

    def run(self, statements: Sequence[_Statement]) -> Run | None:
        """Return the run of all statements, `None` if one of them is unknown."""
        run = self._all(statements)
        if run is None:
            return None
        # A shell handles the signal once the command has ended that it waits for.
        termination = self._longest if self._traps_signals else FOREVER
        return replace(run, exits=False, termination=termination)

    def _all(self, statements: Sequence[_Statement], code: int = 0) -> Run | None:
        seconds, exits = 0.0, False
        lines: list[tuple[float, str]] = []
        writes: list[Write] = []
        for number, each in enumerate(statements):
            if each.separator == ("||" if code == 0 else "&&"):
                continue
            run = self._one(each, code)
            if run is None:
                return None
            lines += [(seconds + after, line) for after, line in run.lines]
            writes += [replace(w, after=seconds + w.after) for w in run.writes]
            seconds, code = seconds + run.seconds, run.code
            following = statements[number + 1 : number + 2]
            is_last = not following or following[0].separator == ";"
            exits = run.exits or bool(code and is_last and self._ends_on_failure)
            if exits or seconds == FOREVER:
                break
        return Run(seconds, code, exits=exits, lines=tuple(lines), writes=tuple(writes))

    def _one(self, statement: _Statement, code: int) -> Run | None:
        if statement.body is not None:
            return self._loop(statement)
        match statement.words:
            case ["set", *options]:
                return self._set(options)
            case ["trap", "exit" | "exit 0", *signals] if signals:
                self._traps_signals |= bool(_SIGTERM & set(signals))
                return Run()
            case ["exec", *command] if command:
                self._traps_signals = False
                run = self._command(command, code)
                return None if run is None else replace(run, exits=True)
            case words:
                return self._command(words, code)

    def _command(self, words: Sequence[str], code: int) -> Run | None:
        if words[0] == "exit":
            return simple_run(words, code)
        run = run_of(words, has_input=self._has_input, depth=self._depth + 1)
        if run is None:
            return None
        self._longest = max(self._longest, run.seconds)
        return replace(run, exits=False)

    def _set(self, options: Sequence[str]) -> Run | None:
        """Take the options of ``set`` that a shell takes, too."""
        line = _shell_line(options)
        if line is None or line.script is not None:
            return None
        self._ends_on_failure |= line.ends_on_failure
        return Run()

    def _loop(self, loop: _Statement) -> Run | None:
        """Return the run of a loop: it has no end, no round, or an exit in its body.

        The lines that an endless loop prints are left out.
        """
        keyword, *words = loop.words
        condition = None if words[0] == "exit" else self._command(words, 0)
        if condition is None:
            return None
        if bool(condition.code) is (keyword == "while"):
            return Run(condition.seconds)
        body = self._all(loop.body or ())
        if body is None or body.exits:
            return body
        return Run(FOREVER)


def _statements(text: str) -> list[_Statement] | None:
    """Return the statements of a script, `None` if one cannot be read."""
    if len(text) > _LONGEST:
        return None
    script = text.strip().replace("\\\n", " ")
    lexer = shlex.shlex(script, posix=True, punctuation_chars=f"{_PUNCTUATION}\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    found: list[tuple[str, list[str]]] = [("", [])]
    try:
        parts = list(lexer)
    except ValueError:  # a quotation has no end
        return None
    for part in parts:
        separator = _separator(part)
        if separator in _SEPARATORS:
            if separator != ";" or found[-1][1]:  # a line may end with && or ||
                found.append((separator, []))
        elif set(part) <= set(_PUNCTUATION) or part.startswith("#"):
            return None
        elif part == "do" and not found[-1][1]:
            found[-1][1].append(part)
            found.append((";", []))
        else:
            found[-1][1].append(part)
    return _with_loops([_Statement(*each) for each in found if each[1]])


def _separator(part: str) -> str:
    """Return the separator that a part of a script stands for, else the part itself.

    The end of a line separates as ``;`` does. Two of these signs are a mistake.
    """
    signs = part.strip("\n") if set(part) <= set(f"{_PUNCTUATION}\n") else part
    return signs or ";"


def _with_loops(statements: list[_Statement]) -> list[_Statement] | None:
    """Return statements in which each loop is one statement, innermost loops first."""
    for _ in range(_MOST_LOOPS):
        starts = [
            number
            for number, each in enumerate(statements)
            if each.body is None and each.words[0] in ("while", "until")
        ]
        if not starts:
            return statements
        start = starts[-1]
        words = [list(each.words) for each in statements[start:]]
        if len(words[0]) < 2 or words[1:2] != [["do"]] or ["done"] not in words:
            return None
        end = start + words.index(["done"])
        body = tuple(statements[start + 2 : end])
        if not body:
            return None
        loop = replace(statements[start], body=body)
        statements[start : end + 1] = [loop]
    return None
