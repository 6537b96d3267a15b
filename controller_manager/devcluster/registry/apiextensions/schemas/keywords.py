"""The keywords of schemas, and the paths of the fields that they describe."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Any, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver import field_type
from controller_manager.devcluster.scheme.models import OBJECT_META
from controller_manager.devcluster.scheme.statuses import Cause, shown

EMBEDDED: Final = "x-kubernetes-embedded-resource"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"
LIST_KEYS: Final = "x-kubernetes-list-map-keys"
LIST_TYPE: Final = "x-kubernetes-list-type"
MAP_TYPE: Final = "x-kubernetes-map-type"
PRESERVES: Final = "x-kubernetes-preserve-unknown-fields"
RULES: Final = "x-kubernetes-validations"

META: Final = ("apiVersion", "kind", "metadata")
"""The fields that each resource has, with any schema."""


def child(path: str, name: str) -> str:
    """Return the path of a field."""
    return f"{path}.{name}" if path else name


def key(path: str, name: str) -> str:
    """Return the path of an entry of a map."""
    return f"{path}[{name}]"


def properties_of(schema: JSON) -> JSON:
    """Return the schemas of an object's fields, by name."""
    return schema.get("properties") or {}


def schema_of_others(schema: JSON) -> JSON | None:
    """Return the schema of the additional properties, `None` if there are none.

    The schema is empty if they may have any value.
    """
    others = schema.get("additionalProperties")
    if others is None or others is False:
        return None
    return others if isinstance(others, dict) else {}


def items_of(schema: JSON) -> JSON | None:
    """Return the schema of a list's items."""
    items = schema.get("items")
    return items if isinstance(items, dict) else None


def inner_schemas(schema: JSON) -> list[JSON]:
    """Return the schemas of all parts of a value."""
    found = [*properties_of(schema).values(), items_of(schema)]
    return [each for each in [*found, schema_of_others(schema)] if each]


def parts(value: Any, schema: JSON, path: str) -> Iterator[tuple[str, Any, JSON]]:
    """Yield the path, the value and the schema of each part that has a schema."""
    if isinstance(value, dict):
        known, others = properties_of(schema), schema_of_others(schema)
        for name, each in value.items():
            if (inner := known.get(name, others)) is not None:
                yield child(path, name), each, inner
    elif isinstance(value, list) and (items := items_of(schema)) is not None:
        for number, each in enumerate(value):
            yield key(path, str(number)), each, items


# Numbers as Go prints them.

_MOST_PLAIN: Final = 6
"""The power of ten from which on Go prints an exponent."""


def go_number(value: float) -> str:
    """Return a number as the verb %v prints a float64: ``10``, ``0.5``, ``1e+06``."""
    number = Decimal(repr(float(value))).normalize()
    if not number.is_finite() or not number:
        return "0" if not number else str(float(value))
    power = number.adjusted()
    if -5 < power < _MOST_PLAIN:
        return format(number, "f")
    digits = "".join(map(str, number.as_tuple().digits))
    rest = f".{digits[1:]}" if digits[1:] else ""
    sign = "-" if number < 0 else ""
    return f"{sign}{digits[0]}{rest}e{power:+03d}"


# The result of a validation: causes, and the number of checks.

_NOWHERE: Final = "<nil>"
"""The text that Go prints for an error without a path."""


class Result:
    """The causes that a validation has found.

    `matches` counts the checks that applied. If a value fits none of several schemas,
    the message comes from the schema with the most matches.
    """

    __slots__ = ("causes", "matches")

    def __init__(self, *causes: Cause) -> None:
        self.causes = list(causes)
        self.matches = 0

    @property
    def is_valid(self) -> bool:
        """Tell whether the value has no errors."""
        return not self.causes

    def merge(self, other: "Result") -> None:
        """Add the causes and the checks of another result."""
        self.causes += other.causes
        self.matches += other.matches


def wrong_value(field: str, value: Any, detail: str) -> Cause:
    """Return the cause for a value that breaks a rule."""
    text = f"Invalid value: {shown(value)}: {detail}"
    return Cause("FieldValueInvalid", field or _NOWHERE, text)


def wrong_type(field: str, path: str, wanted: str, found: str) -> Cause:
    """Return the cause for a value of a wrong type, or without the right format."""
    detail = f"{path} in body must be of type {wanted}: {shown(found)}"
    text = f"Invalid value: {shown(found)}: {detail}"
    return Cause("FieldValueTypeInvalid", field or _NOWHERE, text)


def no_schema_fits(base: str, detail: str) -> Cause:
    """Return the cause for a value that breaks a combination of schemas.

    As upstream's, the cause has no path. `base` is the path of the whole value.
    """
    text = f'Invalid value: "": {detail}'
    return Cause("FieldValueInvalid", base or _NOWHERE, text)


# Field types for merging, made from a schema (kube-openapi/pkg/schemaconv).

_TEXT: Final = field_type.FieldType("string")
_SCALARS: Final[Mapping[str, field_type.Scalar]] = {
    "boolean": "boolean",
    "integer": "numeric",
    "number": "numeric",
    "string": "string",
}


def type_of_resource(schema: JSON) -> field_type.FieldType:
    """Return the type of the objects that a valid schema describes.

    Without a schema, the objects may have any fields.
    """
    return (
        field_type.FieldType(map_=_map(schema, is_resource=True))
        if schema
        else field_type.DEDUCED
    )


def _type_of(schema: JSON) -> field_type.FieldType:
    if schema.get(INT_OR_STRING):
        return field_type.UNTYPED
    match schema.get("type"):
        case "object":
            is_resource = bool(schema.get(EMBEDDED))
            return field_type.FieldType(map_=_map(schema, is_resource=is_resource))
        case "array":
            return field_type.FieldType(list_=_list(schema))
        case str() as name:
            return field_type.FieldType(_SCALARS[name])
    return field_type.DEDUCED


def _map(schema: JSON, *, is_resource: bool) -> field_type.MapType:
    others = schema_of_others(schema)
    inner = _type_of(others) if others is not None else None
    # An object without a schema may have any fields.
    is_free = not properties_of(schema) and "additionalProperties" not in schema
    if inner is None and (schema.get(PRESERVES) or (is_free and not is_resource)):
        inner = field_type.DEDUCED
    load = partial(_fields, schema, is_resource=is_resource)
    return field_type.MapType(load, inner, is_atomic=schema.get(MAP_TYPE) == "atomic")


def _fields(schema: JSON, *, is_resource: bool) -> Mapping[str, field_type.FieldType]:
    found = {name: _type_of(each) for name, each in properties_of(schema).items()}
    if not is_resource:
        return found
    meta = {"kind": _TEXT, "apiVersion": _TEXT}
    return {**found, **meta, "metadata": field_type.type_of_model(OBJECT_META)}


def _list(schema: JSON) -> field_type.ListType:
    items = items_of(schema) or {}
    type_ = _type_of(items)
    match schema.get(LIST_TYPE):
        case "set":
            return field_type.ListType(type_)
        case "map":
            keys = tuple(schema.get(LIST_KEYS) or ())
            fields = properties_of(items)
            defaults = {
                name: fields[name]["default"]
                for name in keys
                if "default" in fields.get(name, {})
            }
            return field_type.ListType(type_, keys, defaults)
    return field_type.ListType(type_, is_atomic=True)


# The old value of each part of a changed object (apiserver/pkg/cel/common).


class Absent:
    """The old value of a part that is new, or that has no identity in its list."""


ABSENT: Final = Absent()


def old_field(old: Any, schema: JSON, name: str) -> Any:
    """Return the old value of a field, `ABSENT` if there was none."""
    if not isinstance(old, dict) or schema.get(MAP_TYPE) == "atomic":
        return ABSENT
    return old.get(name, ABSENT)


def old_items(old: Any, new: list[Any], schema: JSON) -> list[Any]:
    """Return the old value of each item; only items of a map list have old values."""
    keys = schema.get(LIST_KEYS)
    if not isinstance(old, list) or schema.get(LIST_TYPE) != "map" or not keys:
        return [ABSENT] * len(new)
    known = [(item_key(each, keys), each) for each in old]
    return [
        next((each for found, each in known if found == item_key(item, keys)), ABSENT)
        for item in new
    ]


def item_key(item: Any, keys: list[str]) -> Any:
    """Return the fields that tell an item from others."""
    if not isinstance(item, dict):
        return None
    return {name: item[name] for name in keys if name in item}
