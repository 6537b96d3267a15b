"""Definitions that a real API server refuses, and the status of accepted ones."""

import copy
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.apiextensions.definition_validation import (
    DEFINITION,
)
from tests.clusters import Cluster
from tests.devcluster.requests import call

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TEXT: JSON = {"type": "string"}
SCHEMA = "spec.validation.openAPIV3Schema"
FILE = Path(__file__).parents[3] / "data" / "devcluster" / "schemas.yaml"
CASES = yaml.load(FILE.read_text(), yaml.CSafeLoader)


def version(name: str = "v1", **more: Any) -> JSON:
    """Return a version whose objects may have any fields."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "name": name,
        "served": True,
        "storage": name == "v1",
        "schema": {"openAPIV3Schema": schema},
        **more,
    }


def spec(*versions: JSON, plural: str = "widgets", **more: Any) -> JSON:
    """Return the spec of a definition with all its defaults."""
    kind = plural.removesuffix("s").capitalize()
    return {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {
            "plural": plural,
            "singular": kind.lower(),
            "kind": kind,
            "listKind": f"{kind}List",
        },
        "versions": list(versions) or [version()],
        "conversion": {"strategy": "None"},
        **more,
    }


def with_field(field: JSON, **root: Any) -> JSON:
    schema = {"type": "object", "properties": {"x": field}, **root}
    return spec(version(schema={"openAPIV3Schema": schema}))


def problems(given: JSON) -> list[str]:
    return [str(each) for each in DEFINITION.errors(given, path="spec.")]


def test_a_plain_definition_is_right() -> None:
    assert problems(spec()) == []


@pytest.mark.parametrize("case", CASES["specs"])
def test_a_wrong_definition_is_refused(case: JSON) -> None:
    assert problems({**spec(), **case["spec"]}) == case["says"]


@pytest.mark.parametrize("case", CASES["fields"])
def test_a_wrong_schema_is_refused(case: JSON) -> None:
    given = with_field(case["field"], **case.get("root", {}))
    assert problems(given) == case["says"]


def test_versions_that_differ_are_named_one_by_one() -> None:
    given = spec(version(), version("v2"))
    given["versions"][1]["schema"] = {"openAPIV3Schema": {}}
    (problem,) = problems(given)
    assert problem == (
        "spec.versions[1].schema.openAPIV3Schema.type: Required value: must not be "
        "empty at the root"
    )


# In a cluster


async def define(cluster: Cluster, given: JSON, **metadata: Any) -> tuple[int, JSON]:
    """Create a definition; return the status and the body of the answer."""
    name = f"{given['names']['plural']}.{given['group']}"
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name, **metadata},
        "spec": given,
    }
    answer = await call(cluster, "POST", DEFINITIONS, body)
    return answer.status, msgspec.json.decode(answer.body)


async def conditions(cluster: Cluster, plural: str) -> dict[str, tuple[str, ...]]:
    path = f"{DEFINITIONS}/{plural}.example.com"
    stored = msgspec.json.decode((await call(cluster, "GET", path)).body)
    return {
        each["type"]: (each["status"], each["reason"], each["message"])
        for each in stored["status"]["conditions"]
    }


def test_validation_changes_nothing() -> None:
    given = with_field({**TEXT, "default": 5})
    before = copy.deepcopy(given)
    problems(given)
    assert given == before
