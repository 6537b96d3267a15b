"""The errors of a pattern."""

from enum import StrEnum


class Flaw(StrEnum):
    """The kinds of problems (ErrorCode of regexp/syntax)."""

    CLASS_RANGE = "invalid character class range"
    SIZE = "expression too large"
    UNEXPECTED_PAREN = "unexpected )"
    DEPTH = "expression nests too deeply"
    REPEAT_ARGUMENT = "missing argument to repetition operator"
    REPEAT_COUNT = "invalid repeat count"
    REPEAT_OPERATOR = "invalid nested repetition operator"
    CLOSING_PAREN = "missing closing )"
    CLOSING_BRACKET = "missing closing ]"
    TRAILING_BACKSLASH = "trailing backslash at end of expression"
    ESCAPE = "invalid escape sequence"
    NAMED_CAPTURE = "invalid named capture"
    PERL_SYNTAX = "invalid or unsupported Perl syntax"


class PatternProblem(ValueError):  # noqa: N818 - a flaw of a text
    """A pattern that Go refuses, with the message of Go's parser."""

    def __init__(self, flaw: Flaw, text: str) -> None:
        """Take the kind of problem, and the part of the pattern that has it."""
        super().__init__(f"error parsing regexp: {flaw}: `{text}`")
