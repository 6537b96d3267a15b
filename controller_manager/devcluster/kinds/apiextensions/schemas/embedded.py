"""Resources in a field of another resource (schema/objectmeta)."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.decoding import Decoder
from controller_manager.devcluster.scheme.models import OBJECT_META
from controller_manager.devcluster.scheme.names import (
    validate_annotations,
    validate_labels,
)
from controller_manager.devcluster.scheme.readers import TypeMismatch
from controller_manager.devcluster.scheme.statuses import Cause, invalid, required

from .keywords import EMBEDDED, child, items_of, key, properties_of, schema_of_others


def coerced_metadata(
    metadata: Any, path: tuple[str | int, ...] = ("metadata",)
) -> tuple[JSON, list[str]]:
    """Return metadata as Go would store it, and its unknown fields.

    `path` leads to the metadata. Raises TypeMismatch for a value of a wrong type.
    """
    if not isinstance(metadata, dict):
        text = "json: cannot unmarshal metadata into Go value of type v1.ObjectMeta"
        raise TypeMismatch(text)
    decoder = Decoder()
    return decoder.decode(metadata, OBJECT_META, path), decoder.problems


def coerced(
    value: Any, schema: JSON, path: tuple[str | int, ...] = ()
) -> tuple[Any, list[str]]:
    """Return a value whose embedded resources have known metadata, and the unknown.

    Metadata of a wrong type is left for the validation. The given value does not
    change.
    """
    unknown: list[str] = []
    return _coerced(value, schema, path, unknown), unknown


def _coerced(
    value: Any, schema: JSON, path: tuple[str | int, ...], unknown: list[str]
) -> Any:
    if isinstance(value, list):
        items = items_of(schema)
        if not items:
            return value
        return [
            _coerced(each, items, (*path, number), unknown)
            for number, each in enumerate(value)
        ]
    if not isinstance(value, dict):
        return value
    result = dict(value)
    if schema.get(EMBEDDED) and isinstance(value.get("metadata"), dict):
        with suppress(TypeMismatch):  # the validation tells of it
            result["metadata"], more = coerced_metadata(
                value["metadata"], (*path, "metadata")
            )
            unknown += more
    known, others = properties_of(schema), schema_of_others(schema)
    for name, each in value.items():
        inner = known.get(name, others)
        if inner and not (schema.get(EMBEDDED) and name == "metadata"):
            result[name] = _coerced(each, inner, (*path, name), unknown)
    return result


def validate_embedded(value: Any, schema: JSON, path: str = "") -> Iterator[Cause]:
    """Yield the errors in the resources that a value embeds."""
    if isinstance(value, list):
        items = items_of(schema)
        for number, each in enumerate(value if items else ()):
            yield from validate_embedded(each, items or {}, key(path, str(number)))
    if not isinstance(value, dict):
        return
    if schema.get(EMBEDDED):
        yield from _validate(value, path)
    known, others = properties_of(schema), schema_of_others(schema)
    for name, each in value.items():
        inner = known.get(name, others)
        if inner is not None:
            yield from validate_embedded(each, inner, child(path, name))


def _validate(resource: JSON, path: str) -> Iterator[Cause]:
    for name in ("apiVersion", "kind"):
        if not resource.get(name):
            yield required(child(path, name), "must not be empty")
    metadata = resource.get("metadata", {})
    where = child(path, "metadata")
    try:
        found, _ = coerced_metadata(metadata)
    except TypeMismatch as error:
        yield invalid(where, '""', str(error))
        return
    yield from validate_labels(found.get("labels", {}), child(where, "labels"))
    annotations = found.get("annotations", {})
    yield from validate_annotations(annotations, child(where, "annotations"))
