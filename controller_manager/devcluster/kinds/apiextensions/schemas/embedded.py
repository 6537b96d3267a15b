"""Resources in a field of another resource (schema/objectmeta)."""

from collections.abc import Iterator
from typing import Any

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.apiextensions.schemas.keywords import (
    EMBEDDED,
    child,
    items_of,
    key,
    properties_of,
    schema_of_others,
)
from controller_manager.devcluster.server.apimachinery.names import (
    validate_annotations,
    validate_labels,
)
from controller_manager.devcluster.server.apimachinery.statuses import (
    Cause,
    invalid,
    required,
)
from controller_manager.devcluster.server.schema import Checker, TypeMismatch


def coerced_metadata(metadata: Any) -> tuple[JSON, list[str]]:
    """Return metadata as Go would store it, and its unknown fields.

    Raises TypeMismatch for a value of a wrong type.
    """
    if not isinstance(metadata, dict):
        text = "json: cannot unmarshal metadata into Go value of type v1.ObjectMeta"
        raise TypeMismatch(text)
    checker = Checker()
    found = checker.check(metadata, "V1ObjectMeta")
    return found, [f"metadata.{name}" for name in checker.unknown]


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
        coerced, _ = coerced_metadata(metadata)
    except TypeMismatch as error:
        yield invalid(where, '""', str(error))
        return
    yield from validate_labels(coerced.get("labels", {}), child(where, "labels"))
    annotations = coerced.get("annotations", {})
    yield from validate_annotations(annotations, child(where, "annotations"))
