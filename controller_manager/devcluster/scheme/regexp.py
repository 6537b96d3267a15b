"""Regular expressions as Go's package regexp has them: RE2, with the errors of Go.

API servers take patterns in the syntax of RE2. Python's `re` has another syntax, and
takes hours for some patterns. RE2 is the library that Go's package follows.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import re2

_FLAWS: Final = {
    "invalid character class range": "invalid character class range",
    "invalid escape sequence": "invalid escape sequence",
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""The words of RE2 for each flaw, and those of Go."""

_MOST_BYTES: Final = 32 << 20
r"""Memory of a pattern: Go takes as much as ``\pL{1000}``."""

_ESCAPES: Final = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.", re.DOTALL)


class PatternProblem(ValueError):
    """A pattern that Go refuses, with the message of Go's parser."""

    def __init__(self, flaw: str, text: str) -> None:
        super().__init__(f"error parsing regexp: {flaw}: `{text}`")


class Pattern:
    """A pattern, ready to be matched."""

    def __init__(self, text: str) -> None:
        """Take a pattern in the syntax of Go; raises PatternProblem."""
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        options.max_mem = _MOST_BYTES
        try:
            self._compiled = re2.compile(text, options)
        except re2.error as error:
            raise _problem(error.args[0].decode(), text) from None
        # RE2 lets it stand for any byte. Go does not have it.
        if r"\C" in _ESCAPES.findall(text):
            raise PatternProblem("invalid escape sequence", r"\C")

    def matches(self, text: str) -> bool:
        """Tell whether some part of the text matches."""
        return self._compiled.search(text) is not None

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield where each match begins and ends, from the left to the right.

        An empty match right after another one counts.
        """
        return (found.span() for found in self._compiled.finditer(text))


@lru_cache(maxsize=4096)
def compiled(text: str) -> Pattern:
    """Return a pattern, ready to be matched; raises PatternProblem."""
    return Pattern(text)


def _problem(message: str, pattern: str) -> PatternProblem:
    """Return the problem that a message of RE2 tells: a flaw, and mostly its text."""
    flaw, _, part = message.partition(": ")
    if flaw in _FLAWS:
        return PatternProblem(_FLAWS[flaw], part)
    return PatternProblem("expression too large", pattern)
