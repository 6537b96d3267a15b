"""Definitions have the form of upstream's documents."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.openapi_definitions import Schemas, Version
from controller_manager.devcluster.scheme.models import Field, Model, Type, built_in
from tests.devcluster.rows import rows

MODELS = built_in()
META = "io.k8s.apimachinery.pkg.apis.meta.v1"


def undescribed(value: Any) -> Any:
    """Return a definition without the descriptions of its fields."""
    if isinstance(value, dict):
        return {
            name: undescribed(each)
            for name, each in value.items()
            if not (name == "description" and isinstance(each, str))
        }
    return value


def definition(version: Version, name: str) -> JSON:
    schemas = Schemas(version, [("", "v1"), ("apps", "v1")])
    schemas.of_model(name)
    found: JSON = undescribed(schemas.definitions[name])
    return found


@rows("version", "name", "expected")
def test_a_definition_is_that_of_upstream(
    version: Version, name: str, expected: JSON
) -> None:
    """Version 2 has no defaults; version 3 wraps references that have siblings."""
    assert json.loads(json.dumps(definition(version, name))) == expected


def test_options_are_of_every_group_version() -> None:
    assert definition(3, f"{META}.WatchEvent")["x-kubernetes-group-version-kind"] == [
        {"group": "", "kind": "WatchEvent", "version": "v1"},
        {"group": "apps", "kind": "WatchEvent", "version": "v1"},
    ]


def stated(model: Model) -> JSON:
    """Return how a model's fields are merged, and which are required."""
    return {
        "required": model.required,
        "map-type": model.map_type,
        "fields": {name: tuple(_merging(each)) for name, each in model.fields.items()},
    }


def _merging(field: Field) -> Iterator[object]:
    yield _shape(field)
    yield from (field.list_type, field.list_map_keys, field.map_type)
    yield from (field.patch_strategy, field.patch_merge_key)


def _shape(of: Type | None) -> object:
    if of is None:
        return None
    if of.ref and (items := MODELS.model(of.ref).items) is not None:
        return _shape(Type(type="array", items=items))
    return of.ref or of.type, of.format, _shape(of.items), _shape(of.values)


def read(definition: JSON) -> JSON:
    return {
        "required": definition.get("required", ()),
        "map-type": definition.get("x-kubernetes-map-type", ""),
        "fields": {
            name: (
                _read_shape(each),
                each.get("x-kubernetes-list-type", ""),
                each.get("x-kubernetes-list-map-keys", ()),
                each.get("x-kubernetes-map-type", ""),
                each.get("x-kubernetes-patch-strategy", ""),
                each.get("x-kubernetes-patch-merge-key", ""),
            )
            for name, each in definition.get("properties", {}).items()
        },
    }


def _read_shape(schema: JSON | None) -> object:
    if schema is None:
        return None
    reference = schema.get("$ref") or schema.get("allOf", [{}])[0].get("$ref", "")
    return (
        reference.rpartition("/")[2] or schema["type"],
        schema.get("format", ""),
        _read_shape(schema.get("items")),
        _read_shape(schema.get("additionalProperties")),
    )


@pytest.mark.parametrize("version", [2, 3])
def test_a_definition_loses_nothing_of_the_schema(version: Version) -> None:
    schemas = Schemas(version, ())
    for name in MODELS:
        schemas.of_model(name)
    assert len(schemas.definitions) > 750
    for name, definition in schemas.definitions.items():
        assert read(definition) == stated(MODELS.model(name)), name


def lists_without_items(value: Any, path: str) -> Iterator[str]:
    """Yield the paths of the lists that do not state the type of their items."""
    if isinstance(value, dict):
        if value.get("type") == "array" and "items" not in value:
            yield path
        for name, each in value.items():
            yield from lists_without_items(each, f"{path}.{name}")


@pytest.mark.parametrize("version", [2, 3])
def test_each_list_states_the_type_of_its_items(version: Version) -> None:
    """Kubectl 1.27 and Helm refuse a document with any other list."""
    schemas = Schemas(version, [("", "v1"), ("apps", "v1")])
    for kind in MODELS.kinds.values():
        schemas.of_model(kind)
    assert [*lists_without_items(schemas.definitions, "definitions")] == []
