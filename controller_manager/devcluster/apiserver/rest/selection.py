"""Label and field selectors of a list or watch."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.selectors import (
    EVERYTHING,
    Selector,
    SelectorError,
    parse_selector,
)
from controller_manager.devcluster.scheme.statuses import bad_request, shown
from controller_manager.devcluster.storage import Stored

from .kind import Kind

_COMMON: Final[Mapping[str, tuple[str, ...]]] = {
    "metadata.name": ("metadata", "name"),
    "metadata.namespace": ("metadata", "namespace"),
}

_FIELD_TERM: Final = re.compile(r"([^=!]+)(==|!=|=)(.*)")


@dataclass(frozen=True, slots=True)
class _FieldTerm:
    path: tuple[str, ...]
    value: str
    equal: bool
    absent: str = ""
    fallback: tuple[str, ...] = ()

    def matches(self, obj: JSON) -> bool:
        found = _at(obj, self.path)
        if not found and self.fallback:
            found = _at(obj, self.fallback)
        if found is None:
            found = self.absent
        text = str(found).lower() if isinstance(found, bool) else str(found)
        return (text == self.value) is self.equal


def _at(obj: JSON, path: tuple[str, ...]) -> Any:
    """Return the value at a path, `None` if there is none."""
    found: Any = obj
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return found


@dataclass(frozen=True, slots=True)
class Selection:
    """The label and field selectors of a request.

    The fields are those of an object as the version of the request shows it, by `view`.
    """

    labels: Selector = EVERYTHING
    fields: tuple[_FieldTerm, ...] = ()
    view: Callable[[Stored], JSON] | None = None

    @property
    def is_everything(self) -> bool:
        """True if the selectors select every object."""
        return self.labels.is_empty and not self.fields

    def sees_same(self, one: JSON, other: JSON) -> bool:
        """Tell at once that two versions of an object have the same labels.

        Most changes do not touch them, and the versions share their labels. The answer
        is false if that needs a comparison.
        """
        labels = one["metadata"].get("labels")
        return not self.fields and labels is other["metadata"].get("labels")

    def matches(self, obj: JSON) -> bool:
        """Tell whether an object is selected."""
        labels = self.labels
        if labels is not EVERYTHING and not labels.matches(
            obj["metadata"].get("labels") or {}
        ):
            return False
        if not self.fields:
            return True
        shown = self.view(Stored(obj, 0)) if self.view else obj
        return all(term.matches(shown) for term in self.fields)


def parse_selection(kind: Kind, query: Mapping[str, str]) -> Selection:
    """Read labelSelector and fieldSelector; raises Refusal 400."""
    try:
        labels = parse_selector(query.get("labelSelector", ""))
    except SelectorError as error:
        raise bad_request(str(error)) from None
    fields = _parse_fields(kind, query.get("fieldSelector", ""))
    return Selection(labels, fields, kind.strategy.shown if kind.is_custom else None)


def _parse_fields(kind: Kind, text: str) -> tuple[_FieldTerm, ...]:
    """Read a field selector (fields/selector.go)."""
    terms = []
    for part in filter(None, re.split(r"(?<!\\),", text)):
        match = re.fullmatch(r"(.*?)(==|!=|=)(.*)", part, re.DOTALL)
        if match is None:
            message = f"invalid selector: '{text}'; can't understand '{part}'"
            raise bad_request(message)
        name, operator, value = match.groups()
        path = _COMMON.get(name) or kind.strategy.fields_to_select().get(name)
        if path is None:
            raise bad_request(_unknown_field(kind, name))
        absent = kind.strategy.absent_fields.get(name, "")
        fallback = kind.strategy.fallback_fields.get(name, ())
        term = _FieldTerm(path, _unescaped(value), operator != "!=", absent, fallback)
        terms.append(term)
    return tuple(terms)


def _unescaped(value: str) -> str:
    """Return a value without its escapes, of backslash, comma and equals sign.

    Raises Refusal 400 for another escape, and for a sign that should be escaped.
    """
    for found in re.finditer(r"\\(.?)|[,=]", value, re.DOTALL):
        escape, escaped = found.group(), found.group(1)
        if escaped is None:
            why = f"unescaped character in value: {ord(escape)}"
            raise bad_request(f"invalid field selector: {why}")
        if escaped not in ("\\", ",", "="):
            why = f"invalid escape sequence: {escape}"
            raise bad_request(f"invalid field selector: {why}")
    return re.sub(r"\\(.)", r"\1", value)


def _unknown_field(kind: Kind, name: str) -> str:
    """Return the message about a field without a field selector.

    Built-in kinds with their own selectable fields have another message than the rest.
    """
    if kind.is_custom or kind.strategy.fields_to_select():
        return f"field label not supported: {name}"
    known = ", ".join(shown(each) for each in _COMMON)
    return f"{shown(name)} is not a known field selector: only {known}"


def exact_name(text: str) -> str:
    """Return the only name that a field selector allows, "" if it names none.

    Then a permission for objects of that name covers the list (requestinfo.go).
    """
    for part in text.split(","):
        match = re.fullmatch(r"metadata\.name==?([^=,/%]+)", part)
        if match and match.group(1) not in (".", ".."):
            return match.group(1)
    return ""


def is_field_selector(text: str) -> bool:
    """Tell whether a text is a valid field selector; the fields are not checked."""
    return all(_FIELD_TERM.fullmatch(part) for part in text.split(",") if part)
