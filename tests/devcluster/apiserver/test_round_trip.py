"""Documents pass through the OpenAPI types of Go unchanged.

A client in Go decodes a document into k8s.io/kube-openapi/pkg/spec3 and pkg/validation/
spec. It loses each field that these types lack, and each empty text, list and map.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.clusters import Cluster
from tests.devcluster.requests import call

Check = Callable[[Any, str], Iterator[str]]
"""Yields the faults of a value at a path."""


def text(value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, str) or not value:
        yield f"{path} is no text"


def true(value: Any, path: str) -> Iterator[str]:
    if value is not True:
        yield f"{path} is not true"


def anything(value: Any, path: str) -> Iterator[str]:
    if value is None:
        yield f"{path} is null"


def list_of(check: Check) -> Check:
    def faults(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, list) or not value:
            yield f"{path} is no list with items"
            return
        for number, each in enumerate(value):
            yield from check(each, f"{path}[{number}]")

    return faults


def map_of(check: Check) -> Check:
    def faults(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, dict) or not value:
            yield f"{path} is no map with entries"
            return
        for name, each in value.items():
            yield from check(each, f"{path}.{name}")

    return faults


def struct(fields: dict[str, Check], needed: str = "") -> Check:
    """Return a check of an object with these fields and extensions."""

    def faults(value: Any, path: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{path} is no object"
            return
        if value.keys() & {"$ref"} and len(value) > 1:
            yield f"{path} has a reference beside other fields"
        yield from (
            f"{path} lacks {each}" for each in needed.split() if each not in value
        )
        for name, each in value.items():
            if name in fields:
                yield from fields[name](each, f"{path}.{name}")
            elif name.startswith("x-kubernetes-"):
                yield from anything(each, f"{path}.{name}")
            else:
                yield f"{path} has an unknown field {name}"

    return faults


def schema(value: Any, path: str) -> Iterator[str]:
    yield from SCHEMA(value, path)


SCHEMA = struct(
    {
        "$ref": text,
        "additionalProperties": schema,
        "allOf": list_of(schema),
        "default": anything,
        "description": text,
        "enum": list_of(text),
        "format": text,
        "items": schema,
        "oneOf": list_of(schema),
        "properties": map_of(schema),
        "required": list_of(text),
        "type": text,
    }
)
CONTENT = map_of(struct({"schema": schema}, "schema"))
PARAMETER = struct(
    {
        "description": text,
        "in": text,
        "name": text,
        "required": true,
        "schema": struct({"type": text, "uniqueItems": true}),
    },
    "description in name schema",
)
OPERATION = struct(
    {
        "description": text,
        "operationId": text,
        "parameters": list_of(PARAMETER),
        "requestBody": struct({"content": CONTENT, "required": true}, "content"),
        "responses": map_of(
            struct({"content": CONTENT, "description": text}, "description")
        ),
        "tags": list_of(text),
    },
    "operationId responses tags",
)
PATH = struct(
    {
        **dict.fromkeys(("delete", "get", "patch", "post", "put"), OPERATION),
        "parameters": list_of(PARAMETER),
    }
)
DOCUMENT = struct(
    {
        "components": struct({"schemas": map_of(schema)}, "schemas"),
        "info": struct({"title": text, "version": text}, "title version"),
        "openapi": text,
        "paths": map_of(PATH),
    },
    "components info openapi paths",
)


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from references(each)


@pytest.mark.looptime
async def test_documents_have_only_fields_of_the_types_of_go(cluster: Cluster) -> None:
    """Of all built-in group versions; and references lead to definitions."""
    index = json.loads((await call(cluster, "GET", "/openapi/v3")).body)["paths"]
    assert len(index) > 25
    faults: list[str] = []
    lost: set[str] = set()
    for name in index:
        document = json.loads((await call(cluster, "GET", f"/openapi/v3/{name}")).body)
        faults += DOCUMENT(document, name)
        definitions = document["components"]["schemas"]
        used = {each.rpartition("/")[2] for each in references(document)}
        lost |= used ^ definitions.keys()
    assert (faults, lost) == ([], set())


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"type": ""}, "s.type is no text"),
        ({"$ref": "#/a", "description": "b"}, "s has a reference beside other fields"),
        ({"unions": [1]}, "s has an unknown field unions"),
        ({"required": []}, "s.required is no list with items"),
        ({"properties": {"a": {"default": None}}}, "s.properties.a.default is null"),
    ],
)
def test_a_fault_is_found(value: Any, fault: str) -> None:
    assert list(schema(value, "s")) == [fault]
