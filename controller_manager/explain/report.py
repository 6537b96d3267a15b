"""Prints explanations: as text for a terminal, or as JSON for programs.

Text of objects has any characters; none of them hides or forges a line.
"""

import textwrap
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from controller_manager.api.scalars import parse_time

from .cause import Cause, Explanation, Reference, State, worst

VERSION: Final = "explain/v1"
"""The version of the JSON form: fields may be added to it, none changes or goes."""

_NARROW: Final = 40
_LINES: Final = 20
"""The most lines about objects that were not read."""

_NAMES: Final = 5
"""The most names of objects in a line."""

_SECONDS: Final = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


class _Document(msgspec.Struct, frozen=True, rename="camel"):
    version: str
    state: State
    explanations: tuple[Explanation, ...]


def as_json(explanations: Sequence[Explanation]) -> str:
    """Return explanations as one JSON document, with the worst of their states."""
    document = _Document(
        VERSION, worst(each.state for each in explanations), tuple(explanations)
    )
    encoded = msgspec.json.encode(document)
    return printable_json(msgspec.json.format(encoded, indent=2).decode()) + "\n"


def as_text(explanations: Sequence[Explanation], now: datetime, width: int) -> str:
    """Return explanations for a terminal of a width: symptom, chain, remedies."""
    blocks = (
        "\n".join(map(printable, _block(each, now, width))) for each in explanations
    )
    return "\n\n".join(blocks) + "\n"


def _block(explanation: Explanation, now: datetime, width: int) -> Iterator[str]:
    state = (
        "in progress" if explanation.state is State.PROGRESSING else explanation.state
    )
    yield f"{explanation.object} is {state}: {explanation.summary}"
    for each in explanation.causes:
        yield ""
        yield from _chain(each, now, width, "")
    if explanation.unread:
        yield ""
        yield "Not read, so causes may be missing:"
        for line in explanation.unread[:_LINES]:
            yield from _wrapped(line, width, "  - ", "    ")
        if len(explanation.unread) > _LINES:
            yield f"  - and {len(explanation.unread) - _LINES} more"
    if explanation.not_looked_at:
        yield ""
        yield "Not looked at, because the time was over:"
        for line in _left(explanation.not_looked_at):
            yield from _wrapped(line, width, "  - ", "    ")


def _left(objects: Sequence[Reference]) -> Iterator[str]:
    """Yield a line for each kind of some objects, with the names of the first."""
    kinds: dict[str, list[str]] = {}
    for each in objects:
        kinds.setdefault(each.kind, []).append(each.name)
    for kind, names in kinds.items():
        more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
        yield f"{kind}: {', '.join(names[:_NAMES])}{more}"


def _chain(
    cause: Cause, now: datetime, width: int, indent: str, word: str = ""
) -> Iterator[str]:
    """Yield the lines of a cause, then those of the causes that it follows from."""
    inner = f"{indent}    "
    first = cause.what if word else cause.what[:1].upper() + cause.what[1:]
    yield from _wrapped(f"{word}{first}.", width, indent, f"{indent}  ")
    for line in _evidence(cause, now):
        yield from _wrapped(line, width, inner, f"{inner}  ")
    if cause.remedy:
        yield from _wrapped(f"Remedy: {cause.remedy}.", width, inner, f"{inner}  ")
    for each in cause.because:
        yield from _chain(each, now, width, f"{indent}  ", "because ")


def _evidence(cause: Cause, now: datetime) -> Iterator[str]:
    """Yield the lines with the code, the object, the field and the time of a cause."""
    more = f" and {cause.count - 1} more" if cause.count > 1 else ""
    field = f", {cause.field}" if cause.field else ""
    yield f"[{cause.code}] {cause.object}{more}{field}"
    if cause.since:
        yield f"since {cause.since} ({_duration(now, cause.since)})"


def _duration(now: datetime, since: str) -> str:
    """Return the time that has passed as ``5m``, ``2h10m`` or ``3d4h``."""
    left = max(0, int((now - parse_time(since)) / timedelta(seconds=1)))
    parts: list[str] = []
    for size, unit in _SECONDS:
        if left >= size or parts:
            parts.append(f"{left // size}{unit}")
            left %= size
    shown = parts[:2]
    return "".join(each for each in shown if not each.startswith("0")) or "0s"


def _wrapped(text: str, width: int, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text,
        max(width, _NARROW),
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def printable(line: str) -> str:
    """Return a line in which characters that are not printable are escaped.

    Messages of objects have any characters: escape sequences, line ends, marks that
    change the direction of the text.
    """
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii")
        for each in line
    )


def printable_json(document: str) -> str:
    r"""Return a JSON document in which such characters in texts are ``\u`` escapes.

    It means the same as before. Between texts, JSON has no other characters than
    spaces and line ends.
    """
    return "".join(
        each if each.isprintable() or each == "\n" else _escaped(each)
        for each in document
    )


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    pairs = (units[index : index + 2] for index in range(0, len(units), 2))
    return "".join(f"\\u{int.from_bytes(pair):04x}" for pair in pairs)
