"""Checks a configuration against its type before apply.

Upstream: structured-merge-diff, typed/validate.go.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from controller_manager.api.json_objects import JSON

from .field_type import FieldType, ListType, MapType, NoKeyError, shown_step


class Fault(NamedTuple):
    """An error in a configuration, and its path."""

    path: str
    message: str


def faults_of(config: JSON, type_: FieldType) -> str:
    """Return the error in a configuration as upstream's message, "" if it is valid."""
    faults = [
        f"{path}: {message}" if path else message
        for path, message in _faults(config, type_, "")
    ]
    if len(faults) < 2:
        return "".join(faults)
    return "\n".join(["errors:", *(f"  {each}" for each in faults)])


def _faults(value: Any, type_: FieldType, path: str) -> Iterator[Fault]:
    if value is None:
        return
    if isinstance(value, dict) and type_.map:
        yield from _faults_of_map(value, type_.map, path)
    elif isinstance(value, list) and type_.list:
        yield from _faults_of_list(value, type_.list, path)
    elif message := _wrong_form(value, type_):
        yield Fault(path, message)


def _faults_of_map(value: JSON, type_: MapType, path: str) -> Iterator[Fault]:
    for name, each in value.items():
        where = f"{path}.{name}"
        inner = type_.fields.get(name) or type_.others
        if inner is None:
            yield Fault(where, "field not declared in schema")
            return
        yield from _faults(each, inner, where)


def _faults_of_list(value: list[Any], type_: ListType, path: str) -> Iterator[Fault]:
    seen: set[str] = set()
    for number, each in enumerate(value):
        shown = f"[{number}]"
        if not type_.is_atomic:
            try:
                step = type_.step(each)
            except NoKeyError as error:
                yield Fault(path, f"element {number}: {error}")
                return
            shown = shown_step(step)
            if step in seen:
                yield Fault(path, f"duplicate entries for key {shown}")
            seen.add(step)
        yield from _faults(each, type_.items, path + shown)


def _wrong_form(value: Any, type_: FieldType) -> str:
    """Return the error in a value that is neither a declared map nor a list."""
    if type_.map and type_.scalar is None:
        return f"expected map, got &{{{_go(value)}}}"
    if type_.list and type_.scalar is None:
        return f"expected list, got &{{{_go(value)}}}"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match type_.scalar:
        case "numeric" if not is_number:
            return f"expected numeric (int or float), got {_go_type(value)}"
        case "string" if not isinstance(value, str):
            return (
                f"expected string, got &value.valueUnstructured{{Value:{_go(value)}}}"
            )
        case "boolean" if not isinstance(value, bool):
            return f"expected boolean, got &{{{_go(value)}}}"
        case "untyped" if isinstance(value, dict | list):
            return f"expected any scalar, got &{{{_go(value)}}}"
    return ""


def _go(value: Any) -> str:
    """Return a value as Go prints it."""
    match value:
        case bool():
            return "true" if value else "false"
        case dict():
            inner = " ".join(f"{name}:{_go(value[name])}" for name in sorted(value))
            return f"map[{inner}]"
        case list():
            return f"[{' '.join(_go(each) for each in value)}]"
    return "<nil>" if value is None else str(value)


def _go_type(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case dict():
            return "map[string]interface {}"
    return "[]interface {}"
