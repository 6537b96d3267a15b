"""The columns and the cells of tables, as text, and those that several kinds show.

A kind's columns are a text, with one column in a line, or before a ``;``::

    Name
    Replicas integer: .spec.replicas
    Zone: .spec.timeZone or <none>
    Claim: {.spec.claim.namespace}/{.spec.claim.name} or <unset>
    Images wide: join .spec.containers[].image
    Condition: condition
    Age

A title may be followed by the type ``integer`` or ``boolean``, and by ``wide``. Then
comes the cell: a path, a text with paths in braces, or a word and a path. `WORDS` has
the words; a word without a path is a function that the table is given. ``until``
is followed by the path of the time at which ``since`` ends, if there is one. ``or`` is
followed by the text or number for an absent value; without it that is 0, false or
empty.
Upstream: pkg/printers, and additionalPrinterColumns.
"""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import msgspec

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time
from controller_manager.api.selectors import LabelSelector, format_selector
from controller_manager.devcluster.apiserver import strategy


def name_of(obj: JSON) -> str:
    """Return an object's name."""
    return str(obj["metadata"]["name"])


def selector_text(selector: JSON | None) -> str:
    """Return a label selector as kubectl shows it."""
    if not selector:
        return strategy.NONE
    return format_selector(msgspec.convert(selector, LabelSelector)) or strategy.NONE


# Columns as text

_Cell = Callable[[JSON, datetime], Any]
_PATH: Final = re.compile(r"\{([^}]*)\}")
_ABSENT: Final = {"integer": 0, "boolean": False, "string": ""}


def _since(value: Any, now: datetime) -> str:
    return strategy.human_duration((now - parse_time(value)).total_seconds())


WORDS: Final[dict[str, Callable[[Any, datetime], Any]]] = {
    "count": lambda value, _: len(value),
    "duration": lambda value, _: strategy.human_duration(value),
    "join": lambda value, _: ",".join(each or "" for each in value),
    "selector": lambda value, _: selector_text(value),
    "since": _since,
    "sum": lambda value, _: sum(filter(None, value)),
}
"""What a cell shows of a value: the items of a list, a time in seconds, and so on."""

_KNOWN: Final[dict[str, tuple[strategy.Column, _Cell]]] = {
    "Name": (strategy.NAME, lambda obj, _: name_of(obj)),
    "Age": (strategy.AGE, strategy.age),
    "Created At": (
        strategy.CREATED_AT,
        lambda obj, _: obj["metadata"].get("creationTimestamp", ""),
    ),
}
"""The columns whose title says all."""


def columns(text: str, *functions: Callable[[JSON], Any]) -> "TextColumns":
    """Return the columns of a text, which is compiled when it is used first.

    The text calls the functions by their names without ``_`` at the start; each gets
    the object, and returns a cell.
    """
    return TextColumns(text, functions)


class TextColumns:
    """The columns and the cells of a text."""

    def __init__(
        self, text: str, functions: Sequence[Callable[[JSON], Any]] = ()
    ) -> None:
        self._text = text
        self._functions = {each.__name__.removeprefix("_"): each for each in functions}

    @cached_property
    def columns(self) -> tuple[strategy.Column, ...]:
        """The columns; raises ValueError for a wrong text."""
        return tuple(column for column, _ in self._compiled)

    def cells(self, obj: JSON, now: datetime) -> strategy.Cells:
        """Return an object's row of the table."""
        return [cell(obj, now) for _, cell in self._compiled]

    @cached_property
    def _compiled(self) -> list[tuple[strategy.Column, _Cell]]:
        lines = re.split("[;\n]", self._text)
        return [self._column(line.strip()) for line in lines if line.strip()]

    def _column(self, line: str) -> tuple[strategy.Column, _Cell]:
        if line in _KNOWN:
            return _KNOWN[line]
        head, _, text = line.partition(":")
        words = head.split()
        flags = [each for each in words if each in (*_ABSENT, "wide")]
        type_ = next((each for each in flags if each in _ABSENT), "string")
        column = strategy.Column(
            " ".join(words[: len(words) - len(flags)]), type_, int("wide" in flags)
        )
        shown, _, absent = text.strip().partition(" or ")
        usual = int(absent) if absent.isdecimal() else absent or _ABSENT[type_]
        found = self._cell(shown, usual)
        if found is None:
            raise ValueError(f"the column {line!r} is no path, no word and no function")
        return column, found

    def _cell(self, text: str, absent: Any) -> _Cell | None:
        if "{" in text:
            return _templated(text, absent)
        text, _, end = text.partition(" until ")
        word, _, path = text.rpartition(" ")
        if function := self._functions.get(text):
            return lambda obj, _: function(obj)
        if not path.startswith(".") or (word and word not in WORDS):
            return None
        steps, show = path[1:].split("."), WORDS.get(word)
        end_steps = end[1:].split(".") if end else ()

        def cell(obj: JSON, now: datetime) -> Any:
            value = _find(obj, steps)
            if value is None:
                return absent
            if end_steps and (ended := _find(obj, end_steps)):
                now = parse_time(ended)
            return show(value, now) if show else value

        return cell


def _templated(text: str, absent: Any) -> _Cell:
    """Return the cell of a text with paths; without one of the values it is absent."""
    paths = [each[1:].split(".") for each in _PATH.findall(text)]
    template = _PATH.sub("{}", text)

    def cell(obj: JSON, _: datetime) -> Any:
        values = [_find(obj, each) for each in paths]
        return absent if None in values else template.format(*values)

    return cell


def _find(value: Any, steps: Sequence[str]) -> Any:
    """Return the value at a path, `None` if it is absent; ``a[]`` is a list's items."""
    for place, step in enumerate(steps):
        if not value:
            return None
        value = value.get(step.removesuffix("[]"))
        if step.endswith("[]"):
            return [_find(each, steps[place + 1 :]) for each in value or ()]
    return value
