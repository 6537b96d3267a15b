"""Validation of a version: schema, subresources, columns, selectable fields."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    duplicate,
    forbidden_field,
    invalid,
    required,
    shown,
    too_many,
)

from .schemas.defaults import validate_defaults
from .schemas.definition import validate_schema
from .schemas.keywords import properties_of
from .schemas.rule_costs import validate_costs
from .schemas.structure import validate_structure

_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = (
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
)
_MOST_FIELDS: Final = 8
_AT_ROOT: Final = {
    "description": "Description",
    "type": "Type",
    "format": "Format",
    "title": "Title",
    "maximum": "Maximum",
    "exclusiveMaximum": "ExclusiveMaximum",
    "minimum": "Minimum",
    "exclusiveMinimum": "ExclusiveMinimum",
    "maxLength": "MaxLength",
    "minLength": "MinLength",
    "pattern": "Pattern",
    "maxItems": "MaxItems",
    "minItems": "MinItems",
    "uniqueItems": "UniqueItems",
    "multipleOf": "MultipleOf",
    "required": "Required",
    "items": "Items",
    "properties": "Properties",
    "externalDocs": "ExternalDocs",
    "example": "Example",
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields",
    "x-kubernetes-validations": "XValidations",
}
"""The fields at the root of a schema that are allowed with a status subresource.

The names are those of Go, as the message lists them.
"""


def validate_versioned_schema(
    schema: JSON, path: str, *, has_status: bool
) -> Iterator[Cause]:
    """Yield the errors in the schema of a version.

    `has_status` says that the status is a subresource.

    Upstream: validateCustomResourceDefinitionValidation.
    """
    root, where = schema.get("openAPIV3Schema"), f"{path}.openAPIV3Schema"
    if not isinstance(root, dict):
        return
    if has_status:
        yield from _validate_root(root, where)
    if root.get("nullable"):
        detail = "nullable cannot be true at the root"
        yield forbidden_field(f"{where}.nullable", detail)
    causes = validate_structure(root, where)
    if not causes:
        causes = [*validate_defaults(root, where, is_resource=True)]
    causes += validate_schema(root, where)
    yield from causes or validate_costs(root, where)


def _validate_root(schema: JSON, path: str) -> Iterator[Cause]:
    """Yield errors for fields at the root that a status subresource forbids."""
    type_ = schema.get("type", "object")
    if type_ != "object":
        detail = (
            'only "object" is allowed as the type at the root of the schema if the '
            "status subresource is enabled"
        )
        yield invalid(f"{path}.type", shown(type_), detail)
    if any(each not in _AT_ROOT for each in schema):
        listed = " ".join(_AT_ROOT.values())
        detail = (
            f"only [{listed}] fields are allowed at the root of the schema if the "
            "status subresource is enabled"
        )
        yield invalid(path, shown(schema), detail)


# Subresources and columns


def validate_subresources(subresources: JSON, path: str) -> Iterator[Cause]:
    """Yield the errors in the paths of a scale."""
    scale = subresources.get("scale")
    if scale is None:
        return
    for name, roots, why in (
        ("specReplicasPath", (".spec.",), "should be a json path under .spec"),
        ("statusReplicasPath", (".status.",), "should be a json path under .status"),
        (
            "labelSelectorPath",
            (".spec.", ".status."),
            "should be a json path under either .spec or .status",
        ),
    ):
        found, field = scale.get(name, ""), f"{path}.scale.{name}"
        if not found:
            if name != "labelSelectorPath":
                yield required(field)
        elif not found.startswith("."):
            yield _odd_path(found, field)
        elif not found.startswith(roots):
            yield invalid(field, shown(found), why)


def _odd_path(path: str, field: str) -> Cause:
    return invalid(field, shown(path), "must be a simple json path starting with .")


def validate_columns(columns: list[JSON], path: str) -> Iterator[Cause]:
    """Yield the errors in columns."""
    for number, column in enumerate(columns):
        where = f"{path}[{number}]"
        if not column.get("name"):
            yield required(f"{where}.name")
        type_, format_ = column.get("type", ""), column.get("format", "")
        detail = f"must be one of {','.join(_COLUMN_TYPES)}"
        if not type_:
            yield required(f"{where}.type", detail)
        elif type_ not in _COLUMN_TYPES:
            yield invalid(f"{where}.type", shown(type_), detail)
        if format_ and format_ not in _COLUMN_FORMATS:
            detail = f"must be one of {','.join(_COLUMN_FORMATS)}"
            yield invalid(f"{where}.format", shown(format_), detail)
        found = column.get("jsonPath", "")
        if not found:
            yield required(f"{where}.JSONPath")
        elif not found.startswith("."):
            yield _odd_path(found, f"{where}.JSONPath")


# Selectable fields


def validate_selectable_fields(
    schema: JSON, fields: list[JSON], path: str
) -> Iterator[Cause]:
    """Yield the errors in selectable fields, which are scalars of the schema."""
    seen: set[str] = set()
    for number, each in enumerate(fields):
        where, text = f"{path}[{number}].jsonPath", each.get("jsonPath", "")
        if not text:
            yield required(where)
            continue
        found = _schema_at(schema, text)
        if found is None:
            detail = "is an invalid path: does not refer to a valid field"
            yield invalid(where, shown(text), detail)
            continue
        if text.startswith(".metadata"):
            detail = "must not point to fields in metadata"
            yield invalid(where, shown(text), detail)
        if found.get("type") not in ("string", "boolean", "integer"):
            detail = (
                "must point to a field of type string, boolean or integer. Enum "
                "string fields and strings with formats are allowed."
            )
            yield invalid(where, shown(text), detail)
        if text in seen:
            yield duplicate(where, shown(text))
        seen.add(text)
    if len(seen) > _MOST_FIELDS:
        yield too_many(path, len(seen), _MOST_FIELDS)


def _schema_at(schema: JSON, path: str) -> JSON | None:
    if not path.startswith("."):
        return None
    found: JSON | None = schema
    for name in path[1:].split("."):
        found = properties_of(found).get(name) if found is not None else None
    return found
