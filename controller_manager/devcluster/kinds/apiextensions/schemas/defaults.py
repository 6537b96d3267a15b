"""Checks the defaults of a schema (schema/defaulting/validation.go)."""

from collections.abc import Iterator

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Cause, invalid, shown

from .embedded import validate_embedded
from .keywords import EMBEDDED, META, child, items_of, key, properties_of
from .pruning import pruned
from .validation import validate_value


def validate_defaults(
    schema: JSON, path: str, *, is_resource: bool = False
) -> Iterator[Cause]:
    """Yield the errors in the defaults of a structural schema."""
    if "default" in schema:
        yield from _validate(schema, child(path, "default"))
    if (items := items_of(schema)) is not None:
        yield from validate_defaults(items, child(path, "items"))
    is_resource = is_resource or schema.get(EMBEDDED, False)
    for name, each in properties_of(schema).items():
        if not (is_resource and name in META):
            yield from validate_defaults(each, key(child(path, "properties"), name))


def _validate(schema: JSON, path: str) -> Iterator[Cause]:
    default = schema["default"]
    _, unknown = pruned(default, schema)
    if unknown:
        yield invalid(path, shown(default), "must not have unknown fields")
    causes = list(validate_embedded(default, schema, path))
    yield from causes or validate_value(default, schema, base=path)
