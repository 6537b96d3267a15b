"""The shell: its command lines, and scripts of commands whose end is known.

A script may have ``;``, ``&&``, ``||``, ``exit``, ``exec``, ``set -e``, ``trap exit
TERM``, also with a function, loops such as ``while true; do sleep 1; done``, ``if``,
variables, calculations, and ``> FILE``. Any other part makes all of it unknown.
"""

import operator
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise, takewhile
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from .commands import (
    FOREVER,
    Run,
    Surroundings,
    Write,
    run_of_files,
    simple_run,
)

# The expansion of a script: its variables, and its calculations.

_PART: Final = re.compile(
    r"'[^']*'"  # quoted: stays as it is
    r"|\\."
    r"|\$\(\((?P<sum>[^()$`]*(?:\$\{?\w+\}?[^()$`]*)*)\)\)"
    r"|\$\(\s*expr\s+(?P<expr>[^()`]*)\)"
    r"|`\s*expr\s+(?P<old>[^`]*)`"
    r"|\$\{(?P<braced>[A-Za-z_]\w*)(?P<needed>:\?)?\}"
    r"|\$(?P<name>[A-Za-z_]\w*)",
    re.DOTALL,
)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_WORD: Final = re.compile(r"[\w./:@%+,-]*")
_TERM: Final = re.compile(r"\s*(\d{1,18}|[-+*/%]|$)")
_LEVELS: Final[Sequence[Mapping[str, Callable[[int, int], int]]]] = (
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": lambda a, b: a // b, "%": operator.mod},
)
_MOST_TERMS: Final = 100


def _expanded(script: str, variables: Mapping[str, str]) -> str:
    """Return a script with the values of known variables and calculations."""

    def value(match: re.Match[str]) -> str:
        inner = match["sum"] or match["expr"] or match["old"]
        if inner is not None:
            text = _expanded(inner, variables).replace("\\*", "*")
            names = re.sub(
                r"[A-Za-z_]\w*", lambda found: variables.get(found[0], "?"), text
            )
            result = _calculated(names if match["sum"] else text)
            return match[0] if result is None else str(result)
        found = variables.get(match["braced"] or match["name"] or "")
        if found is None or not _WORD.fullmatch(found):
            return match[0]
        return found or (match[0] if match["needed"] else "")

    return _PART.sub(value, script)


def _calculated(text: str) -> int | None:
    """Return the value of a sum of numbers, `None` if it has other parts."""
    terms: list[str] = []
    position = 0
    while position < len(text.rstrip()):
        match = _TERM.match(text, position)
        if match is None or len(terms) > _MOST_TERMS:
            return None
        terms.append(match[1])
        position = match.end()
    return _value(terms)


def _value(terms: list[str]) -> int | None:
    if len(terms) == 1:
        return int(terms[0]) if terms[0].isdecimal() else None
    for level in _LEVELS:
        for number in range(len(terms) - 1, 0, -1):
            if (operation := level.get(terms[number])) is None:
                continue
            left, right = _value(terms[:number]), _value(terms[number + 1 :])
            if left is None or right is None:
                return None
            if terms[number] in "/%" and right == 0:
                return None
            return operation(left, right)
    return None


# The shell: its command lines, and scripts of commands whose end is known.

_SHELLS: Final = frozenset(("ash", "bash", "dash", "sh"))
_ENDS: Final = frozenset(("0", "EXIT"))
_EXIT: Final = Run(exits=True)
_FUNCTION: Final = re.compile(
    r"^\s*([A-Za-z_]\w*)\s*\(\)\s*\{\s([^{}]*?)[;\n]\s*\}\s*$", re.MULTILINE
)
_SIGTERM: Final = frozenset(("15", "SIGTERM", "TERM"))
_SEPARATORS: Final = frozenset((";", "&&", "||"))
_PUNCTUATION: Final = ";&|<>()"
_OPTIONS: Final = re.compile("-[celux]*o?")
"""Options of a shell that change nothing here, besides ``-c`` and ``-e``."""
_LONGEST: Final = 10_000
"""A script of more characters is unknown: reading it would take the server's time."""
_MOST_LOOPS: Final = 50
"""A script with more loops is unknown: nested loops would take the server's stack."""
_MOST_LINES: Final = 1_000
"""The lines that are known of an endless loop."""
_REDIRECTIONS: Final = (">", ">>")
_OUTPUT: Final = re.compile(r"/(?!dev/(?!null|termination-log))[^$`]*")
"""A file that takes the output of a command; the log is none."""

_CLOSING: Final = ("do", "done", "else", "fi", "then")
_OPENING: Final = ("if", "until", "while")
_ALONE: Final = ("do", "else", "then")
"""Words that are a statement of their own, whatever follows."""
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

    A loop has its condition as `words`, and the statements of its `body`. An ``if`` has
    `branches`: each a condition and a body, and an empty condition for ``else``. The
    command writes into the file `output` instead of the log.
    """

    separator: str
    words: Sequence[str]
    output: str = ""
    body: tuple["_Statement", ...] | None = None
    branches: tuple[tuple["_Statements", "_Statements"], ...] = ()

    @property
    def is_compound(self) -> bool:
        """True for a loop and for an ``if``."""
        return self.body is not None or bool(self.branches)


_Statements = tuple[_Statement, ...]


def run_of(
    command: Sequence[str],
    around: Surroundings | None = None,
    *,
    has_input: bool = False,
    depth: int = 0,
) -> Run | None:
    """Return the run of a command line, `None` for an unknown one.

    A command that needs variables or files is unknown without surroundings. A shell or
    ``cat`` that reads its input ends at once, unless it `has_input` that stays open.
    `depth` is the number of shells around the command.
    """
    if PurePosixPath(command[0]).name == "busybox" and command[1:]:
        command = command[1:]
    name = PurePosixPath(command[0]).name
    if list(command[1:]) in ([], ["-"]) and name == "cat":
        return Run(FOREVER if has_input else 0.0)
    if name not in _SHELLS:
        return simple_run(command) or run_of_files(command, around)
    line = _shell_line(command[1:])
    if line is None or depth >= _DEEPEST:
        return None
    if line.script is None:
        return Run(FOREVER if has_input else 0.0)
    variables = around.variables if around else {}
    statements = _statements(_without_functions(line.script), variables)
    if statements is None:
        return None
    return _Script(line, depth, around, has_input=has_input).run(statements)


def _without_functions(script: str) -> str:
    """Return a script in which traps have the bodies of its functions."""
    if len(script) > _LONGEST:
        return script
    bodies = {found[1]: found[2] for found in _FUNCTION.finditer(script)}
    if not bodies:
        return script

    def trap(found: re.Match[str]) -> str:
        return f"trap {shlex.quote(bodies.get(found[1], found[1]))} "

    return re.sub(r"\btrap\s+(\w+)\s", trap, _FUNCTION.sub("", script))


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

    def __init__(
        self,
        line: _ShellLine,
        depth: int,
        around: Surroundings | None,
        *,
        has_input: bool,
    ) -> None:
        self._line = line
        self._ends_on_failure = line.ends_on_failure
        self._depth = depth
        self._around = around
        self._has_input = has_input
        self._handler: Run | None = None
        """What the script does after SIGTERM before it ends."""
        self._longest = 0.0

    def run(self, statements: Sequence[_Statement]) -> Run | None:
        """Return the run of all statements, `None` if one of them is unknown."""
        run = self._all(statements)
        if run is None:
            return None
        # A shell handles the signal once the command has ended that it waits for.
        if (last := self._handler) is not None:
            seconds = self._longest + last.seconds
            run = replace(run, termination=seconds, termination_code=last.code)
        return replace(run, exits=False)

    def _all(self, statements: Sequence[_Statement], code: int = 0) -> Run | None:
        total = Run(code=code)
        for number, each in enumerate(statements):
            if each.separator == ("||" if total.code == 0 else "&&"):
                continue
            run = self._one(each, total.code)
            if run is None:
                return None
            total = _followed(total, run)
            following = statements[number + 1 : number + 2]
            is_last = not following or following[0].separator == ";"
            if total.code and is_last and self._ends_on_failure:
                total = replace(total, exits=True)
            if total.exits or total.seconds == FOREVER:
                break
        return total

    def _one(self, statement: _Statement, code: int) -> Run | None:
        if statement.body is not None:
            return self._loop(statement)
        if statement.branches:
            return self._if(statement)
        match statement.words:
            case ["set", *options]:
                return self._set(options)
            case ["trap", handler, *signals] if signals:
                return self._trap(handler, set(signals))
            case ["exec", *command] if command:
                self._handler = None
                run = self._command(command, code, statement.output)
                return None if run is None else replace(run, exits=True)
            case words:
                return self._command(words, code, statement.output)

    def _command(self, words: Sequence[str], code: int, output: str = "") -> Run | None:
        words = [each.replace("$?", str(code)) for each in words]
        if words[0] == "exit":
            return simple_run(words, code)
        around = self._around
        if assigned := list(takewhile(_ASSIGNMENT.fullmatch, words[:-1])):
            words = words[len(assigned) :]
            around = around and around.assigned(assigned)
        run = run_of(words, around, has_input=self._has_input, depth=self._depth + 1)
        if run is None:
            return None
        if output:
            run = replace(run, lines=(), writes=(Write(0.0, output), *run.writes))
        if self._around is not None:
            self._around.take(run.writes)
        self._longest = max(self._longest, run.seconds)
        return replace(run, exits=False)

    def _trap(self, handler: str, signals: set[str]) -> Run | None:
        """Take what a script does after signals; `None` if that is unknown."""
        around = self._around
        script = _Script(self._line, self._depth, None, has_input=self._has_input)
        read = _statements(handler, around.variables if around else {})
        found = None if read is None else script._all(read)
        if found is None or found.writes or (_ENDS & signals and found != _EXIT):
            return None
        if _SIGTERM & signals:
            self._handler = found if found.exits else None
        return Run()

    def _set(self, options: Sequence[str]) -> Run | None:
        """Take the options of ``set`` that a shell takes, too."""
        line = _shell_line(options)
        if line is None or line.script is not None:
            return None
        self._ends_on_failure |= line.ends_on_failure
        return Run()

    def _loop(self, loop: _Statement) -> Run | None:
        keyword, *words = loop.words
        condition = None if words[0] == "exit" else self._command(words, 0)
        if condition is None:
            return None
        if bool(condition.code) is (keyword == "while"):
            return Run(condition.seconds)
        body = self._all(loop.body or ())
        if body is None or body.exits:
            return body
        pause = condition.seconds + body.seconds
        rounds = _MOST_LINES // len(body.lines) if body.lines and pause else 0
        lines = tuple(
            (number * pause + condition.seconds + after, line)
            for number in range(rounds)
            for after, line in body.lines
        )
        return Run(FOREVER, lines=lines, writes=body.writes)

    def _if(self, statement: _Statement) -> Run | None:
        total = Run()
        for condition, body in statement.branches:
            found = self._condition(condition)
            if found is None:
                return None
            total = _followed(total, found)
            if total.exits:
                return total
            if total.code == 0:
                run = self._all(body)
                return None if run is None else _followed(total, run)
        return replace(total, code=0)

    def _condition(self, statements: Sequence[_Statement]) -> Run | None:
        ends, self._ends_on_failure = self._ends_on_failure, False
        run = self._all(statements)
        self._ends_on_failure = ends
        return run


def _followed(first: Run, second: Run) -> Run:
    began = first.seconds
    lines = tuple((began + after, line) for after, line in second.lines)
    writes = tuple(replace(each, after=began + each.after) for each in second.writes)
    return Run(
        began + second.seconds,
        second.code,
        exits=second.exits,
        lines=first.lines + lines,
        writes=first.writes + writes,
    )


def _statements(text: str, variables: Mapping[str, str]) -> list[_Statement] | None:
    """Return the statements of a script, `None` if one cannot be read."""
    if len(text) > _LONGEST:
        return None
    script = _expanded(text.strip().replace("\\\n", " "), variables)
    lexer = shlex.shlex(script, posix=True, punctuation_chars=f"{_PUNCTUATION}\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    found: list[tuple[str, list[str]]] = [("", [])]
    outputs: dict[int, str] = {}
    try:
        parts = list(lexer)
    except ValueError:  # a quotation has no end
        return None
    for before, part in pairwise(["", *parts]):
        separator = _separator(part)
        if before in _REDIRECTIONS:
            outputs[len(found)] = part
        elif separator in _REDIRECTIONS and _is_output_of(found[-1][1]):
            outputs[len(found)] = ""  # until its name follows
        elif separator in _SEPARATORS:
            if separator != ";" or found[-1][1]:  # a line may end with && or ||
                found.append((separator, []))
        elif set(part) <= set(_PUNCTUATION) or part.startswith("#"):
            return None
        elif part in _ALONE and not found[-1][1]:
            found[-1][1].append(part)
            found.append((";", []))
        else:
            found[-1][1].append(part)
    if not all(map(_OUTPUT.fullmatch, outputs.values())):
        return None
    statements = [
        _Statement(*each, outputs.get(number, ""))
        for number, each in enumerate(found, 1)
        if each[1]
    ]
    return _compound(statements)


def _is_output_of(words: Sequence[str]) -> bool:
    """Tell whether a command is there whose output a sign redirects: no ``2>``."""
    return bool(words) and not words[-1].isdecimal() and words[-1] not in _CLOSING


def _separator(part: str) -> str:
    """Return the separator that a part of a script stands for, else the part itself.

    The end of a line separates as ``;`` does. Two of these signs are a mistake.
    """
    signs = part.strip("\n") if set(part) <= set(f"{_PUNCTUATION}\n") else part
    return signs or ";"


def _compound(statements: list[_Statement]) -> list[_Statement] | None:
    """Return statements in which each loop and each ``if`` is one statement.

    The innermost come first.
    """
    for _ in range(_MOST_LOOPS):
        starts = [
            number
            for number, each in enumerate(statements)
            if not each.is_compound and each.words[0] in _OPENING
        ]
        if not starts:
            return statements
        start = starts[-1]
        closing = ["fi"] if statements[start].words[0] == "if" else ["done"]
        words = [list(each.words) for each in statements[start:]]
        if closing not in words:
            return None
        end = start + words.index(closing)
        inner = statements[start:end]
        made = _conditional(inner) if closing == ["fi"] else _loop(inner)
        if made is None:
            return None
        statements[start : end + 1] = [made]
    return None


def _loop(statements: Sequence[_Statement]) -> _Statement | None:
    """Return a loop, `None` if it lacks a part."""
    head, *rest = statements
    if len(head.words) < 2 or not rest or list(rest[0].words) != ["do"] or not rest[1:]:
        return None
    return replace(head, body=tuple(rest[1:]))


def _conditional(statements: Sequence[_Statement]) -> _Statement | None:
    parts: list[tuple[str, list[_Statement]]] = []
    for each in statements:
        keyword, *words = each.words or ("",)
        if each.is_compound or keyword not in ("if", "elif", "then", "else"):
            if not parts:
                return None
            parts[-1][1].append(each)
            continue
        parts.append((keyword, [_Statement("", words)] if words else []))
    branches: list[tuple[_Statements, _Statements]] = []
    if parts[-1][0] == "else":
        branches.append(((), tuple(parts.pop()[1])))
    keywords = [keyword for keyword, _ in parts]
    if keywords != ["if", "then", *["elif", "then"] * (len(parts) // 2 - 1)]:
        return None
    pairs = zip(parts[::2], parts[1::2], strict=True)
    branches = [(tuple(one), tuple(two)) for (_, one), (_, two) in pairs] + branches
    if not all(body for _, body in branches) or not branches[0][0]:
        return None
    return _Statement(statements[0].separator, (), branches=tuple(branches))
