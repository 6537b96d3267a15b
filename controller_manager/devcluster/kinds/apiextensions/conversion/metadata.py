"""The metadata of converted objects: a webhook may change labels and annotations."""

from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.names import (
    validate_annotations,
    validate_labels,
)

from .review import ConversionError

_KEPT: Final = (("name", "name"), ("namespace", "namespace"), ("uid", "UID"))
"""The fields that must stay the same, and their names in messages."""

_CHANGEABLE: Final = {
    "labels": (validate_labels, "metadata.labels"),
    "annotations": (validate_annotations, "metadata.annotation"),
}


def check_converted(given: JSON, converted: JSON) -> None:
    """Raise ConversionError unless both objects have the same name and uid."""
    before, after = given["metadata"], converted.get("metadata")
    after = after if isinstance(after, dict) else {}
    for key, what in _KEPT:
        if (wanted := before.get(key, "")) != (found := _text(after.get(key))):
            msg = f"must have the same {what}: {wanted} != {found}"
            raise ConversionError(msg)


def restored(given: JSON, converted: JSON) -> JSON:
    """Return a converted object with the metadata that it had before.

    Its labels and annotations are those of the webhook. Raises ConversionError.
    """
    if "metadata" not in converted:
        msg = "missing metadata in converted object"
        raise ConversionError(msg)
    found = converted["metadata"]
    if not isinstance(found, dict):
        msg = f"invalid metadata of type {_type_of(found)} in converted object"
        raise ConversionError(msg)
    metadata = dict(given["metadata"])
    for name in _CHANGEABLE:
        values = found.get(name)
        _check_texts(name, values, metadata.get(name) or {})
        if values is None:
            metadata.pop(name, None)
        else:
            metadata[name] = values
    return {**converted, "metadata": metadata}


def _check_texts(name: str, values: Any, before: JSON) -> None:
    """Raise ConversionError for labels or annotations that no object may have."""
    if values is None:
        return
    if not isinstance(values, dict):
        what = f"metadata.{name} of type {_type_of(values)}"
        msg = f"invalid {what} in converted object"
        raise ConversionError(msg)
    for key, value in values.items():
        if not isinstance(value, str):
            what = f"metadata.{name}[{key}] must be a string, but is {_type_of(value)}"
            msg = f"{what} in converted object"
            raise ConversionError(msg)
    if values == before:
        return
    validate, field = _CHANGEABLE[name]
    problems = [str(each) for each in validate(values, field)]
    if problems:
        text = ", ".join(problems)
        raise ConversionError(text if len(problems) == 1 else f"[{text}]")


def _text(value: Any) -> str:
    """Return a text as Go reads it: another value counts as none."""
    return value if isinstance(value, str) else ""


def _type_of(value: Any) -> str:
    """Return the name of a value's type in Go."""
    match value:
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case str():
            return "string"
        case list():
            return "[]interface {}"
        case dict():
            return "map[string]interface {}"
    return "<nil>"
