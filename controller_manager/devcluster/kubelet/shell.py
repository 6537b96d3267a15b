"""The shell: its command lines, and scripts of commands whose end is known.

A script may have ``;``, ``&&``, ``||``, ``exit``, ``exec``, ``set -e``, ``trap exit
TERM``, also with a function, loops such as ``while true; do sleep 1; done``, ``if``,
variables, calculations, and ``> FILE``. Any other part makes all of it unknown.
"""

import operator
import re
import shlex
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise, takewhile
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from .commands import FOREVER, Run, Surroundings, UnknownError, Write, simple_run

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
    {"*": operator.mul, "/": operator.floordiv, "%": operator.mod},
)
_MOST_TERMS: Final = 100


def _expanded(script: str, variables: Mapping[str, str]) -> str:
    """Return a script with the values of known variables and calculations."""

    def value(match: re.Match[str]) -> str:
        inner = match["sum"] or match["expr"] or match["old"]
        if inner is not None:
            text = _expanded(inner, variables).replace("\\*", "*")
            if match["sum"]:
                text = re.sub(
                    r"[A-Za-z_]\w*", lambda found: variables.get(found[0], "?"), text
                )
            result = _calculated(text)
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


# The statements of a script.

_SHELLS: Final = frozenset(("ash", "bash", "dash", "sh"))
_OPTIONS: Final = re.compile("-[celux]*o?")
"""Options of a shell that change nothing here, besides ``-c`` and ``-e``."""
_FUNCTION: Final = re.compile(
    r"^\s*([A-Za-z_]\w*)\s*\(\)\s*\{\s([^{}]*?)[;\n]\s*\}\s*$", re.MULTILINE
)
_SEPARATORS: Final = frozenset((";", "&&", "||"))
_PUNCTUATION: Final = ";&|<>()"
_REDIRECTIONS: Final = (">", ">>")
_OUTPUT: Final = re.compile(r"/(?!dev/(?!null|termination-log))[^$`]*")
"""A file that takes the output of a command; the log is none."""

_INNER: Final = ("do", "done", "elif", "else", "fi", "then")
_ALONE: Final = ("do", "else", "then")
"""Words that are a statement of their own, whatever follows."""
_LONGEST: Final = 10_000
"""A script of more characters is unknown: reading it would take the server's time."""
_MOST_LOOPS: Final = 50
"""A script with more loops is unknown: nested loops would take the server's stack."""
_DEEPEST: Final = 8
"""A script in a script in a script is unknown beyond this depth."""


class _Statement(Struct, frozen=True):
    """A command of a script, with the separator before it.

    A loop has its condition as `words`, and the statements of its `body`. An ``if`` has
    `branches`: each a condition and a body, and an empty condition for ``else``. The
    command writes into the file `output` instead of the log.
    """

    separator: str
    words: Sequence[str] = ()
    output: str = ""
    body: "_Statements" = ()
    branches: "tuple[tuple[_Statements, _Statements], ...]" = ()


_Statements = tuple[_Statement, ...]


def _options(words: list[str]) -> tuple[str | None, bool]:
    """Return the script of a shell, and whether a failure ends it.

    Without a script (`None`) the shell reads its input. Raises UnknownError.
    """
    letters, position = "", 0
    while position < len(words) and words[position].startswith("-"):
        if words[position] == "--":
            position += 1
            break
        if not _OPTIONS.fullmatch(words[position]) or len(words[position]) < 2:
            raise UnknownError
        letters += words[position]
        position += 2 if words[position].endswith("o") else 1
    rest = words[position:]
    if ("c" in letters) is not bool(rest):
        raise UnknownError
    return rest[0] if rest else None, "e" in letters


def _without_functions(script: str) -> str:
    """Return a script in which traps have the bodies of its functions."""
    if len(script) > _LONGEST:
        raise UnknownError
    bodies = {found[1]: found[2] for found in _FUNCTION.finditer(script)}
    if not bodies:
        return script

    def trap(found: re.Match[str]) -> str:
        return f"trap {shlex.quote(bodies.get(found[1], found[1]))} "

    return re.sub(r"\btrap\s+(\w+)\s", trap, _FUNCTION.sub("", script))


def _commands(text: str, variables: Mapping[str, str]) -> list[_Statement]:
    """Return the commands of a script in order; parts of loops are commands, too."""
    script = _expanded(text.strip().replace("\\\n", " "), variables)
    lexer = shlex.shlex(script, posix=True, punctuation_chars=f"{_PUNCTUATION}\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        parts = list(lexer)
    except ValueError:  # a quotation has no end
        raise UnknownError from None
    found: list[tuple[str, list[str]]] = [("", [])]
    outputs: dict[int, str] = {}
    for before, part in pairwise(["", *parts]):
        # The end of a line separates as ``;`` does. Two of these signs are a mistake.
        is_sign, words = set(part) <= set(f"{_PUNCTUATION}\n"), found[-1][1]
        sign = (part.strip("\n") or ";") if is_sign else part
        if before in _REDIRECTIONS:
            outputs[len(found)] = part
        elif sign in _REDIRECTIONS and words and _takes_output(words[-1]):
            outputs[len(found)] = ""  # until its name follows
        elif sign in _SEPARATORS:
            if sign != ";" or words:  # a line may end with && or ||
                found.append((sign, []))
        elif set(part) <= set(_PUNCTUATION) or part.startswith("#"):
            raise UnknownError
        else:
            words.append(part)
            if part in _ALONE and len(words) == 1:
                found.append((";", []))
    if not all(map(_OUTPUT.fullmatch, outputs.values())):
        raise UnknownError
    return [
        _Statement(*each, outputs.get(number, ""))
        for number, each in enumerate(found, 1)
        if each[1]
    ]


def _takes_output(last: str) -> bool:
    """Tell whether a sign after a word redirects the output of a command: no ``2>``."""
    return not last.isdecimal() and last not in _INNER


class _Parser:
    """Puts commands together to loops and ``if``."""

    def __init__(self, commands: Iterable[_Statement]) -> None:
        self._left = deque(commands)
        self._loops = 0

    def block(self, *ends: str) -> _Statements:
        """Return the statements up to one that begins with a word of `ends`."""
        found = []
        while self._left and self._left[0].words[0] not in ends:
            each = self._left.popleft()
            if each.words[0] == "if":
                found.append(self._if(each))
            elif each.words[0] in ("until", "while"):
                found.append(self._loop(each))
            elif each.words[0] in _INNER:
                raise UnknownError
            else:
                found.append(each)
        return tuple(found)

    def _count(self) -> None:
        self._loops += 1
        if self._loops > _MOST_LOOPS:
            raise UnknownError

    def _take(self, *words: str) -> str:
        """Return the first word of the next command, which is nothing but a word."""
        if not self._left or self._left[0].words not in [[each] for each in words]:
            raise UnknownError
        return self._left.popleft().words[0]

    def _loop(self, head: _Statement) -> _Statement:
        self._count()
        self._take("do")
        body = self.block("done")
        self._take("done")
        if len(head.words) < 2 or not body:
            raise UnknownError
        return replace(head, body=body)

    def _if(self, head: _Statement) -> _Statement:
        self._count()
        branches, keyword = [], head
        while True:
            _, *words = keyword.words
            first = (replace(keyword, separator="", words=words),) if words else ()
            condition = (*first, *self.block("then"))
            self._take("then")
            body = self.block("elif", "else", "fi")
            if not condition or not body:
                raise UnknownError
            branches.append((condition, body))
            if not self._left or self._left[0].words[0] != "elif":
                break
            keyword = self._left.popleft()
        if self._take("else", "fi") == "else":
            branches.append(((), self.block("fi")))
            self._take("fi")
        if not branches[-1][1]:
            raise UnknownError
        return _Statement(head.separator, branches=tuple(branches))


# The run of a script.

_ENDS: Final = frozenset(("0", "EXIT"))
_EXIT: Final = Run(exits=True)
_SIGTERM: Final = frozenset(("15", "SIGTERM", "TERM"))
_MOST_LINES: Final = 1_000
"""The lines that are known of an endless loop."""


class _Shell:
    """A shell that runs one script."""

    def __init__(
        self,
        around: Surroundings | None,
        depth: int,
        *,
        ends_on_failure: bool,
        has_input: bool,
    ) -> None:
        self._around = around
        self._depth = depth
        self._ends_on_failure = ends_on_failure
        self._has_input = has_input
        self._handler: Run | None = None
        """What the script does after SIGTERM before it ends."""
        self._longest = 0.0

    def run(self, script: str) -> Run:
        """Return the run of a script; raises UnknownError."""
        run = self._all(self._parsed(script))
        # A shell handles the signal once the command has ended that it waits for.
        if (last := self._handler) is not None:
            seconds = self._longest + last.seconds
            run = replace(run, termination=seconds, termination_code=last.code)
        return replace(run, exits=False)

    def _parsed(self, script: str) -> _Statements:
        variables = self._around.variables if self._around else {}
        return _Parser(_commands(script, variables)).block()

    def _all(self, statements: _Statements) -> Run:
        total = Run()
        for number, each in enumerate(statements):
            if each.separator == ("||" if total.code == 0 else "&&"):
                continue
            total = total.followed_by(self._one(each, total.code))
            following = statements[number + 1 : number + 2]
            is_last = not following or following[0].separator == ";"
            if total.code and is_last and self._ends_on_failure:
                total = replace(total, exits=True)
            if total.exits or total.seconds == FOREVER:
                break
        return total

    def _one(self, statement: _Statement, code: int) -> Run:
        if statement.body:
            return self._loop(statement)
        if statement.branches:
            return self._if(statement)
        match statement.words:
            case ["set", *options]:
                script, ends = _options(options)
                if script is not None:
                    raise UnknownError
                self._ends_on_failure |= ends
                return Run()
            case ["trap", handler, *signals] if signals:
                return self._trap(handler, set(signals))
            case ["exec", *command] if command:
                self._handler = None
                return replace(
                    self._command(command, code, statement.output), exits=True
                )
        return self._command(statement.words, code, statement.output)

    def _command(self, words: Sequence[str], code: int, output: str = "") -> Run:
        words = [each.replace("$?", str(code)) for each in words]
        if words[0] == "exit":
            return simple_run("exit", words[1:], None, code)
        around = self._around
        if assigned := list(takewhile(_ASSIGNMENT.fullmatch, words[:-1])):
            words = words[len(assigned) :]
            around = around and around.assigned(assigned)
        run = _run(words, around, self._depth + 1, has_input=self._has_input)
        if output:
            run = replace(run, lines=(), writes=(Write(0.0, output), *run.writes))
        if self._around is not None:
            self._around.take(run.writes)
        self._longest = max(self._longest, run.seconds)
        return replace(run, exits=False)

    def _trap(self, handler: str, signals: set[str]) -> Run:
        """Take what a script does after signals."""
        shell = _Shell(
            None,
            self._depth,
            ends_on_failure=self._ends_on_failure,
            has_input=self._has_input,
        )
        found = shell._all(self._parsed(handler))
        if found.writes or (_ENDS & signals and found != _EXIT):
            raise UnknownError
        if _SIGTERM & signals:
            self._handler = found if found.exits else None
        return Run()

    def _loop(self, loop: _Statement) -> Run:
        """Return the run of a loop: it has no end, no round, or an exit in its body.

        A loop that takes no time prints nothing: nobody could read its lines.
        """
        keyword, *words = loop.words
        if words[0] == "exit":
            raise UnknownError
        condition = self._command(words, 0)
        if bool(condition.code) is (keyword == "while"):
            return Run(condition.seconds)
        body = self._all(loop.body)
        if body.exits:
            return body
        pause = condition.seconds + body.seconds
        rounds = _MOST_LINES // len(body.lines) if body.lines and pause else 0
        lines = tuple(
            (number * pause + condition.seconds + after, line)
            for number in range(rounds)
            for after, line in body.lines
        )
        return Run(FOREVER, lines=lines, writes=body.writes)

    def _if(self, statement: _Statement) -> Run:
        total = Run()
        for condition, body in statement.branches:
            ends, self._ends_on_failure = self._ends_on_failure, False
            total = total.followed_by(self._all(condition))
            self._ends_on_failure = ends
            if total.exits:
                return total
            if total.code == 0:
                return total.followed_by(self._all(body))
        return replace(total, code=0)


# A command line.


def run_of(
    command: Sequence[str],
    around: Surroundings | None = None,
    *,
    has_input: bool = False,
) -> Run | None:
    """Return the run of a command line, `None` for an unknown one.

    A command that needs variables or files is unknown without surroundings. A shell or
    ``cat`` that reads its input ends at once, unless it `has_input` that stays open.
    """
    try:
        return _run(command, around, 0, has_input=has_input)
    except UnknownError:
        return None


def _run(
    command: Sequence[str], around: Surroundings | None, depth: int, *, has_input: bool
) -> Run:
    """Return the run of a command in `depth` shells; raises UnknownError."""
    name, rest = PurePosixPath(command[0]).name, list(command[1:])
    if name == "busybox" and rest:
        name, rest = PurePosixPath(rest[0]).name, rest[1:]
    if name == "cat" and rest in ([], ["-"]):
        return Run(FOREVER if has_input else 0.0)
    if name not in _SHELLS:
        return simple_run(name, rest, around)
    script, ends_on_failure = _options(rest)
    if script is None:
        return Run(FOREVER if has_input else 0.0)
    if depth >= _DEEPEST:
        raise UnknownError
    shell = _Shell(around, depth, ends_on_failure=ends_on_failure, has_input=has_input)
    return shell.run(_without_functions(script))
