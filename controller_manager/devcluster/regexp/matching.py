"""Tells whether a text matches a pattern (regexp/exec.go, as an automaton).

A pattern becomes a program: an instruction takes a character, checks a place in the
text, or goes on in two ways. All ways are followed at once, so nothing is tried twice.
What one character does to a set of ways is remembered.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from msgspec import Struct

from controller_manager.devcluster.regexp.characters import contains
from controller_manager.devcluster.regexp.nodes import (
    Assertion,
    Characters,
    Choice,
    Node,
    Place,
    Repeat,
    Sequence,
)
from controller_manager.devcluster.regexp.parser import parse
from controller_manager.devcluster.regexp.problems import Flaw, PatternProblem

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

    def find(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """Return where the first match begins and ends, `None` if there is none.

        Of several that begin there, it is the one that Go prefers: the left branch
        of a choice, and as many repetitions as possible unless they are lazy.
        """
        found: tuple[int, int] | None = None
        threads: list[tuple[int, int]] = []
        before = _class_of(text[start - 1]) if start else ""
        for position in range(start, len(text) + 1):
            character = text[position : position + 1]
            if found is None:
                threads.append((self._start, position))
            if not threads:
                break
            after = _class_of(character) if character else ""
            threads, end = self._advanced(threads, before, after, character)
            found = found if end is None else (end, position)
            before = after
        return found

    def _advanced(
        self, threads: list[tuple[int, int]], before: str, after: str, character: str
    ) -> tuple[list[tuple[int, int]], int | None]:
        """Take a character; return the threads, and where a match began that ends here.

        A thread is an instruction and the place where its match began. The first ones
        are preferred: those after one that matches go.
        """
        reached: set[int] = set()
        taken: list[tuple[int, int]] = []
        for number, begin in threads:
            for each in self._in_order(number, before, after, reached):
                instruction = self._program[each]
                if isinstance(instruction, _Match):
                    return taken, begin
                if (
                    isinstance(instruction, _Take)
                    and character
                    and contains(instruction.characters, character)
                ):
                    taken.append((instruction.following, begin))
        return taken, None

    def _in_order(
        self, start: int, before: str, after: str, reached: set[int]
    ) -> Iterator[int]:
        """Yield the instructions that are reached, the preferred ones first."""
        waiting = [start]
        while waiting:
            number = waiting.pop()
            if number in reached:
                continue
            reached.add(number)
            match self._program[number]:
                case _Split(following=several):
                    waiting += reversed(several)
                case _Check(place=place, following=following):
                    if _is_at(place, before, after):
                        waiting.append(following)
                case _Take() | _Match():
                    yield number

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
            again = _Split([])
            entry = self._put(again)
            ways = [self._added(node.node, entry), following]
            again.following = ways[::-1] if node.is_lazy else ways
            following = entry
        else:
            end = following
            for _ in range(node.most - node.least):
                once = self._added(node.node, following)
                ways = [once, end]
                following = self._put(_Split(ways[::-1] if node.is_lazy else ways))
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
