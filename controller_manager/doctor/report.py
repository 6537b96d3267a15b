"""The report: one line for each finding, or JSON."""

from collections.abc import Sequence

import msgspec

from .finding import Level
from .running import Result


class _Line(msgspec.Struct, frozen=True):
    check: str
    level: Level
    message: str
    mend: str


class _Document(msgspec.Struct, frozen=True):
    ok: bool
    findings: tuple[_Line, ...]


def has_errors(results: Sequence[Result]) -> bool:
    """Tell whether any finding is an error."""
    return any(
        each.level is Level.ERROR for result in results for each in result.findings
    )


def as_text(results: Sequence[Result]) -> str:
    """Return one line for each finding: level, check, message and mend, aligned."""
    lines = _lines(results)
    width = max((len(each.check) for each in lines), default=0)
    return "".join(
        f"{each.level:<7}  {each.check:<{width}}  {each.message}"
        f"{f'; mend: {each.mend}' if each.mend else ''}\n"
        for each in lines
    )


def as_json(results: Sequence[Result]) -> str:
    """Return the findings as JSON; fields are added in later versions, none removed."""
    document = _Document(not has_errors(results), tuple(_lines(results)))
    text = msgspec.json.format(msgspec.json.encode(document), indent=2)
    return text.decode() + "\n"


def _lines(results: Sequence[Result]) -> list[_Line]:
    return [
        _Line(result.check, each.level, each.message, each.mend)
        for result in results
        for each in result.findings
    ]
