"""Reads a pattern (regexp/syntax/parse.go)."""

import re
import sys
from typing import Final, NamedTuple

from controller_manager.devcluster.regexp.characters import (
    ANY,
    NO_NEWLINE,
    PERL,
    Part,
    named_class,
    unicode_class,
)
from controller_manager.devcluster.regexp.nodes import (
    Assertion,
    Characters,
    Choice,
    Node,
    Place,
    Range,
    Repeat,
    Sequence,
)
from controller_manager.devcluster.regexp.problems import Flaw, PatternProblem

_MOST_REPEATS: Final = 1000
_MOST_DEPTH: Final = 200
_PLACES: Final[dict[str, Place]] = {
    "A": "text start",
    "z": "text end",
    "b": "word boundary",
    "B": "no word boundary",
}
_FLAGS: Final = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_NAMED_GROUP: Final = re.compile(r"\(\?P?<([A-Za-z0-9_]+)>")
_COUNT: Final = re.compile(r"\{(\d{1,9})(?:(,)(\d{1,9})?)?\}")
_UNICODE: Final = re.compile(r"\\[pP](?:\{(\^?)([A-Za-z_]+)\}|([A-Z]))")
_ESCAPED: Final = re.compile(
    r"\\(?:x([0-9A-Fa-f]{2})|x\{([0-9A-Fa-f]+)\}|(0[0-7]{0,2}|[1-7][0-7]{1,2})"
    r"|([afnrtv])|([^\w\s]|_))",
    re.ASCII,
)
_CONTROL: Final = {
    "a": "\a",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_REPEATED: Final = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class _Flags(NamedTuple):
    folds: bool = False
    lines: bool = False
    """True if ``^`` and ``$`` match the start and the end of lines."""
    dot_all: bool = False

    def changed(self, on: str, off: str) -> "_Flags":
        return _Flags(
            ("i" in on or self.folds) and "i" not in off,
            ("m" in on or self.lines) and "m" not in off,
            ("s" in on or self.dot_all) and "s" not in off,
        )


def parse(pattern: str) -> Node:
    """Return the node of a pattern; raises PatternProblem with the text of Go."""
    parser = _Parser(pattern)
    node, _ = parser.choice(_Flags(), 0)
    if not parser.is_at_end:
        raise PatternProblem(Flaw.UNEXPECTED_PAREN, pattern)
    return node


class _Parser:
    """Reads from the left to the right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at >= len(self._pattern)

    def _starts_with(self, text: str) -> bool:
        return self._pattern.startswith(text, self._at)

    def choice(self, flags: _Flags, depth: int) -> tuple[Node, _Flags]:
        """Read up to a parenthesis that closes; return the flags that are set then."""
        if depth > _MOST_DEPTH:
            raise PatternProblem(Flaw.DEPTH, self._pattern)
        branches: list[Node] = []
        nodes: list[Node] = []
        while not self.is_at_end and not self._starts_with(")"):
            if self._starts_with("|"):
                self._at += 1
                branches.append(Sequence(tuple(nodes)))
                nodes = []
            elif (found := _FLAGS.match(self._pattern, self._at)) and found[3] == ")":
                if not found[1] and found[2] is None:
                    raise PatternProblem(Flaw.REPEAT_ARGUMENT, "?")
                flags = flags.changed(found[1], found[2] or "")
                self._at = found.end()
            elif self._starts_with("\\Q"):
                nodes += self._quoted(flags)
            else:
                nodes.append(self._repeated(self._atom(flags, depth)))
        branches.append(Sequence(tuple(nodes)))
        return (branches[0] if len(branches) == 1 else Choice(tuple(branches))), flags

    # Repetition

    def _repeated(self, node: Node) -> Node:
        operator = self._operator()
        if operator is None:
            return node
        start, (least, most) = operator
        highest = least if most is None else most
        if max(least, highest) > _MOST_REPEATS or least > highest:
            raise PatternProblem(Flaw.REPEAT_COUNT, self._pattern[start : self._at])
        is_lazy = self._starts_with("?")
        self._at += is_lazy
        after = self._at
        if self._operator() is not None:
            raise PatternProblem(Flaw.REPEAT_OPERATOR, self._pattern[start : self._at])
        self._at = after
        repeat = Repeat(node, least, most, is_lazy)
        if _most_repeated(repeat) > _MOST_REPEATS:
            raise PatternProblem(Flaw.REPEAT_COUNT, self._pattern[start:after])
        return repeat

    def _operator(self) -> tuple[int, tuple[int, int | None]] | None:
        """Take a repetition operator; return its offset and the numbers it stands for.

        A brace that does not begin a count stands for itself.
        """
        start = self._at
        if self.is_at_end:
            return None
        if (found := _REPEATED.get(self._pattern[start])) is not None:
            self._at += 1
            return start, found
        count = _COUNT.match(self._pattern, start)
        if count is None:
            return None
        self._at = count.end()
        least = int(count[1])
        if count[2] is None:
            return start, (least, least)
        return start, (least, int(count[3]) if count[3] else None)

    # Atoms

    def _atom(self, flags: _Flags, depth: int) -> Node:
        char = self._pattern[self._at]
        if char == "(":
            return self._group(flags, depth)
        if char == "[":
            return self._class(flags)
        if char == "\\":
            return self._escape(flags)
        start = self._at
        if self._operator() is not None:
            text = self._pattern[start : self._at]
            raise PatternProblem(Flaw.REPEAT_ARGUMENT, text)
        self._at += 1
        if char == ".":
            return ANY if flags.dot_all else NO_NEWLINE
        if char == "^":
            return Assertion("line start" if flags.lines else "text start")
        if char == "$":
            return Assertion("line end" if flags.lines else "text end")
        return Characters((Range(char, char),), folds=flags.folds)

    def _group(self, flags: _Flags, depth: int) -> Node:
        start = self._at
        if (found := _FLAGS.match(self._pattern, start)) is not None:
            inner, self._at = flags.changed(found[1], found[2] or ""), found.end()
        elif (named := _NAMED_GROUP.match(self._pattern, start)) is not None:
            inner, self._at = flags, named.end()
        elif self._starts_with("(?"):
            raise PatternProblem(*_odd_group(self._pattern, start))
        else:
            inner, self._at = flags, start + 1
        node, _ = self.choice(inner, depth + 1)
        if self.is_at_end:
            raise PatternProblem(Flaw.CLOSING_PAREN, self._pattern)
        self._at += 1
        return node

    # Escapes and classes

    def _escape(self, flags: _Flags) -> Node:
        letter = self._pattern[self._at + 1 : self._at + 2]
        if letter in _PLACES:
            self._at += 2
            return Assertion(_PLACES[letter])
        part = self._set() or self._escaped()
        return Characters((part,), folds=flags.folds)

    def _quoted(self, flags: _Flags) -> list[Node]:
        """Take a quoted text; an operator after it repeats its last character."""
        start = self._at + 2
        end = self._pattern.find("\\E", start)
        text = self._pattern[start : end if end >= 0 else None]
        self._at = end + 2 if end >= 0 else len(self._pattern)
        nodes: list[Node] = [
            Characters((Range(each, each),), folds=flags.folds) for each in text
        ]
        return [*nodes[:-1], self._repeated(nodes[-1])] if nodes else []

    def _set(self) -> Part | None:
        r"""Take an escape that stands for a set, like ``\d`` or ``\p{L}``."""
        letter = self._pattern[self._at + 1 : self._at + 2]
        if letter in PERL:
            self._at += 2
            return PERL[letter]
        if letter not in ("p", "P") or not letter:
            return None
        found = _UNICODE.match(self._pattern, self._at)
        if found is None:
            text = self._pattern[self._at : self._at + 2]
            raise PatternProblem(Flaw.CLASS_RANGE, text)
        self._at = found.end()
        name = found[2] or found[3]
        return unicode_class(
            name, found[0], is_negated=(letter == "P") ^ bool(found[1])
        )

    def _escaped(self) -> Range:
        """Take an escape that stands for one character."""
        start = self._at
        if start + 1 >= len(self._pattern):
            raise PatternProblem(Flaw.TRAILING_BACKSLASH, "")
        found = _ESCAPED.match(self._pattern, start)
        if found is None:
            text = self._pattern[start : start + 2]
            raise PatternProblem(Flaw.ESCAPE, text)
        self._at = found.end()
        if number := found[1] or found[2]:
            return self._code(int(number, 16), found[0])
        if found[3]:
            return self._code(int(found[3], 8), found[0])
        char = _CONTROL.get(found[4] or "", found[5])
        return Range(char, char)

    def _code(self, number: int, text: str) -> Range:
        if number > sys.maxunicode:
            raise PatternProblem(Flaw.ESCAPE, text)
        return Range(chr(number), chr(number))

    def _class(self, flags: _Flags) -> Node:
        start = self._at
        self._at += 1
        is_negated = self._starts_with("^")
        self._at += is_negated
        parts: list[Part] = []
        while not parts or not self._starts_with("]"):
            if self.is_at_end:
                raise PatternProblem(Flaw.CLOSING_BRACKET, self._pattern[start:])
            parts.append(self._class_part(start))
        self._at += 1
        return Characters(tuple(parts), is_negated, flags.folds)

    def _class_part(self, start: int) -> Part:
        if self._starts_with("[:"):
            end = self._pattern.find(":]", self._at + 2)
            if end >= 0:
                text = self._pattern[self._at : end + 2]
                self._at = end + 2
                return named_class(text)
        if self._starts_with("\\") and (part := self._set()) is not None:
            return part
        at = self._at
        first = self._class_character(start)
        if not self._starts_with("-") or self._starts_with("-]"):
            return first
        self._at += 1
        last = self._class_character(start)
        if last.last < first.first:
            text = self._pattern[at : self._at]
            raise PatternProblem(Flaw.CLASS_RANGE, text)
        return Range(first.first, last.last)

    def _class_character(self, start: int) -> Range:
        if self.is_at_end:
            raise PatternProblem(Flaw.CLOSING_BRACKET, self._pattern[start:])
        if self._starts_with("\\"):
            return self._escaped()
        char = self._pattern[self._at]
        self._at += 1
        return Range(char, char)


def _odd_group(pattern: str, start: int) -> tuple[Flaw, str]:
    """Return the flaw of an invalid group that begins with ``(?``, and its text."""
    rest = pattern[start:]
    if rest.startswith(("(?P<", "(?<")) and not rest.startswith(("(?<=", "(?<!")):
        end = rest.find(">")
        return Flaw.NAMED_CAPTURE, rest[: end + 1] if end >= 0 else rest
    if rest.startswith("(?<"):
        return Flaw.PERL_SYNTAX, rest[:4]
    found = re.match(r"\(\?[imsU-]*.?", rest, re.DOTALL)
    return Flaw.PERL_SYNTAX, found[0] if found else rest[:3]


def _most_repeated(node: Node) -> int:
    """Return how often the innermost node of nested repetitions may be repeated."""
    match node:
        case Repeat(node=inner, least=least, most=most):
            times = max(least, most or 0, 1)
            return times * _most_repeated(inner)
        case Sequence(nodes=nodes) | Choice(nodes=nodes):
            return max((_most_repeated(each) for each in nodes), default=1)
    return 1
