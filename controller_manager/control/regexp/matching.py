"""Tells whether a text matches a pattern (regexp/exec.go, as an automaton).

A pattern becomes a program: an instruction takes a character, checks a place in the
text, or goes on in two ways. All ways are followed at once, so nothing is tried twice.
What one character does to a set of ways is remembered.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from msgspec import Struct

from controller_manager.control.regexp.characters import contains
from controller_manager.control.regexp.nodes import (
    Assertion,
    Characters,
    Choice,
    Node,
    Place,
    Repeat,
    Sequence,
)
from controller_manager.control.regexp.parser import parse
from controller_manager.control.regexp.problems import Flaw, PatternProblem

_MOST_INSTRUCTIONS: Final = 100_000
_MOST_REMEMBERED: Final = 20_000


class _Take(Struct, frozen=True):
    """Takes one character of a set."""

    characters: Characters
    following: int


class _Check(Struct, frozen=True):
    """Goes on if this is such a place."""

    place: Place
    following: int


class _Split(Struct):
    """Goes on in several ways."""

    following: list[int]


class _Match(Struct, frozen=True):
    """The text matches."""


_Instruction = _Take | _Check | _Split | _Match
_Step = tuple[frozenset[int], bool]


class Pattern:
    """A pattern, ready to be matched."""

    def __init__(self, text: str) -> None:
        """Take a pattern in the syntax of Go; raises PatternProblem."""
        self._program: list[_Instruction] = [_Match()]
        self._start = self._added(parse(text), 0)
        self._steps: dict[tuple[frozenset[int], str, str], _Step] = {}

    def matches(self, text: str) -> bool:
        """Tell whether some part of the text matches."""
        start = frozenset((self._start,))
        ways, before = start, ""
        for character in text:
            key = (ways, before, character)
            step = self._steps.get(key)
            if step is None:
                step = self._remembered(key)
            ways, is_match = step
            if is_match:
                return True
            ways |= start
            before = _class_of(character)
        return 0 in self._followed(ways, before, "")

    def _remembered(self, key: tuple[frozenset[int], str, str]) -> _Step:
        ways, before, character = key
        followed = self._followed(ways, before, _class_of(character))
        taken = frozenset(
            each.following
            for each in (self._program[number] for number in followed)
            if isinstance(each, _Take) and contains(each.characters, character)
        )
        if len(self._steps) >= _MOST_REMEMBERED:
            self._steps.clear()
        self._steps[key] = step = (taken, 0 in followed)
        return step

    def _followed(self, ways: Iterable[int], before: str, after: str) -> set[int]:
        """Return the instructions that are reached without taking a character."""
        reached: set[int] = set()
        waiting = list(ways)
        while waiting:
            number = waiting.pop()
            if number in reached:
                continue
            reached.add(number)
            match self._program[number]:
                case _Split(following=several):
                    waiting += several
                case _Check(place=place, following=following):
                    if _is_at(place, before, after):
                        waiting.append(following)
                case _Take() | _Match():
                    pass
        return reached

    # Making the program: from the end of the pattern to its start

    def _put(self, instruction: _Instruction) -> int:
        if len(self._program) >= _MOST_INSTRUCTIONS:
            raise PatternProblem(Flaw.SIZE, "")
        self._program.append(instruction)
        return len(self._program) - 1

    def _added(self, node: Node, following: int) -> int:
        """Add the instructions of a node before `following`; return the first."""
        match node:
            case Characters():
                return self._put(_Take(node, following))
            case Assertion(place=place):
                return self._put(_Check(place, following))
            case Sequence(nodes=nodes):
                for each in reversed(nodes):
                    following = self._added(each, following)
                return following
            case Choice(nodes=nodes):
                several = [self._added(each, following) for each in nodes]
                return self._put(_Split(several))
            case Repeat():
                return self._repeated(node, following)

    def _repeated(self, node: Repeat, following: int) -> int:
        if node.most is None:
            again = _Split([following])
            entry = self._put(again)
            again.following.append(self._added(node.node, entry))
            following = entry
        else:
            end = following
            for _ in range(node.most - node.least):
                once = self._added(node.node, following)
                following = self._put(_Split([end, once]))
        for _ in range(node.least):
            following = self._added(node.node, following)
        return following


@lru_cache(maxsize=4096)
def compiled(text: str) -> Pattern:
    """Return a pattern, ready to be matched; raises PatternProblem."""
    return Pattern(text)


def _class_of(character: str) -> str:
    """Return what matters for the place beside a character."""
    if character == "\n":
        return "newline"
    return "word" if character.isascii() and _is_word(character) else "other"


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _is_at(place: Place, before: str, after: str) -> bool:
    match place:
        case "text start":
            return not before
        case "text end":
            return not after
        case "line start":
            return before in ("", "newline")
        case "line end":
            return after in ("", "newline")
        case "word boundary":
            return (before == "word") is not (after == "word")
        case "no word boundary":
            return (before == "word") is (after == "word")
