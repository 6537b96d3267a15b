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
from tests.devcluster.rows import rows

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TEXT: JSON = {"type": "string"}
SCHEMA = "spec.validation.openAPIV3Schema"
MERGE = "application/merge-patch+json"
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
    answer = await call(cluster, "POST", DEFINITIONS, msgspec.json.encode(body))
    return answer.status, msgspec.json.decode(answer.body)


async def conditions(cluster: Cluster, plural: str) -> dict[str, tuple[str, ...]]:
    path = f"{DEFINITIONS}/{plural}.example.com"
    stored = msgspec.json.decode((await call(cluster, "GET", path)).body)
    return {
        each["type"]: (each["status"], each["reason"], each["message"])
        for each in stored["status"]["conditions"]
    }


@pytest.mark.looptime
async def test_a_taken_name_is_not_accepted_until_it_is_free(cluster: Cluster) -> None:
    await define(cluster, spec())
    second = spec(plural="gadgets")
    second["names"]["shortNames"] = ["widget", "widgets", "g"]
    status, _ = await define(cluster, second)
    assert status == 201
    assert await conditions(cluster, "gadgets") == {
        "NamesAccepted": (
            "False",
            "ShortNamesConflict",
            '["widget" is already in use, "widgets" is already in use]',
        ),
        "Established": ("False", "NotAccepted", "not all names are accepted"),
    }
    assert cluster.server.catalogue.find("example.com", "v1", "gadgets") is None
    await call(cluster, "DELETE", f"{DEFINITIONS}/widgets.example.com")
    assert await conditions(cluster, "gadgets") == {
        "NamesAccepted": ("True", "NoConflicts", "no conflicts found"),
        "Established": (
            "True",
            "InitialNamesAccepted",
            "the initial names have been accepted",
        ),
    }
    kind = cluster.server.catalogue.find("example.com", "v1", "gadgets")
    assert kind is not None
    assert kind.short_names == ("widget", "widgets", "g")


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"group": "other.com"}, "spec.group"),
        ({"scope": "Cluster"}, "spec.scope"),
        ({"names": {"kind": "Gadget"}}, "spec.names.kind"),
        ({"versions": [version("v2", storage=True)]}, "status.storedVersions[0]"),
    ],
)
async def test_what_objects_depend_on_cannot_change(
    cluster: Cluster, change: JSON, field: str
) -> None:
    await define(cluster, spec())
    body = msgspec.json.encode({"spec": change})
    path = f"{DEFINITIONS}/widgets.example.com"
    answer = await call(cluster, "PATCH", path, body, content_type=MERGE)
    assert answer.status == 422
    causes = msgspec.json.decode(answer.body)["details"]["causes"]
    assert field in [each["field"] for each in causes]


@pytest.mark.looptime
async def test_a_new_storage_version_is_remembered(cluster: Cluster) -> None:
    await define(cluster, spec(version(), version("v2")))
    versions = [version(storage=False), version("v2", storage=True)]
    body = msgspec.json.encode({"spec": {"versions": versions}})
    path = f"{DEFINITIONS}/widgets.example.com"
    answer = await call(cluster, "PATCH", path, body, content_type=MERGE)
    status = msgspec.json.decode(answer.body)["status"]
    assert status["storedVersions"] == ["v1", "v2"]


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("approval", "outcome"),
    [
        (None, "FieldValueRequired"),
        ("yes", "FieldValueInvalid"),
        ("unapproved, a test", ("False", "UnapprovedAnnotation")),
        ("https://github.com/kubernetes/a/1", ("True", "ApprovedAnnotation")),
    ],
)
async def test_groups_of_the_project_need_an_approval(
    cluster: Cluster, approval: str | None, outcome: Any
) -> None:
    given = spec(group="gateway.networking.k8s.io")
    annotations = {"api-approved.kubernetes.io": approval} if approval else {}
    status, body = await define(cluster, given, annotations=annotations)
    if status == 422:
        assert body["details"]["causes"][0]["reason"] == outcome
        return
    path = f"{DEFINITIONS}/widgets.gateway.networking.k8s.io"
    stored = msgspec.json.decode((await call(cluster, "GET", path)).body)
    found = {
        each["type"]: (each["status"], each["reason"])
        for each in stored["status"]["conditions"]
    }
    assert found["KubernetesAPIApprovalPolicyConformant"] == outcome


@pytest.mark.looptime
async def test_a_deleted_definition_with_objects_has_a_condition(
    cluster: Cluster,
) -> None:
    await define(cluster, spec())
    path = "/apis/example.com/v1/namespaces/default/widgets"
    held = {"metadata": {"name": "a", "finalizers": ["example.com/hold"]}}
    await call(cluster, "POST", path, msgspec.json.encode(held))
    await call(cluster, "DELETE", f"{DEFINITIONS}/widgets.example.com")
    assert (await conditions(cluster, "widgets"))["Terminating"] == (
        "True",
        "InstanceDeletionInProgress",
        "CustomResource deletion is in progress",
    )


def test_validation_changes_nothing() -> None:
    given = with_field({**TEXT, "default": 5})
    before = copy.deepcopy(given)
    problems(given)
    assert given == before


@pytest.mark.looptime
@rows("field", "problem")
async def test_a_schema_of_a_wrong_form_is_refused(
    cluster: Cluster, field: JSON, problem: str
) -> None:
    status, body = await define(cluster, with_field(field))
    assert status == 400
    assert problem in body["message"]


@pytest.mark.looptime
async def test_unknown_words_of_a_schema_are_dropped(cluster: Cluster) -> None:
    field = {"type": "array", "items": {**TEXT, "minLenght": 1}}
    status, body = await define(cluster, with_field(field))
    assert status == 201
    schema = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema["properties"]["x"] == {"type": "array", "items": TEXT}


@pytest.mark.looptime
async def test_objects_go_with_a_definition_that_serves_nothing(
    cluster: Cluster,
) -> None:
    """No client can reach them any more."""
    await define(cluster, spec())
    path = "/apis/example.com/v1/namespaces/default/widgets"
    body = msgspec.json.encode({"metadata": {"name": "a"}})
    assert (await call(cluster, "POST", path, body)).status == 201
    patch = msgspec.json.encode({"spec": {"versions": [version(served=False)]}})
    crd = f"{DEFINITIONS}/widgets.example.com"
    await call(cluster, "PATCH", crd, patch, content_type=MERGE)
    assert (await call(cluster, "GET", path)).status == 404
    await call(cluster, "DELETE", crd)
    assert (await call(cluster, "GET", crd)).status == 404
    await define(cluster, spec())
    assert msgspec.json.decode((await call(cluster, "GET", path)).body)["items"] == []


@pytest.mark.looptime
async def test_a_kind_of_the_server_goes_before_one_of_the_same_name(
    cluster: Cluster,
) -> None:
    """A definition cannot take its place."""
    given = spec(plural="ipaddresses", group="networking.k8s.io")
    annotations = {"api-approved.kubernetes.io": "unapproved, a test"}
    assert (await define(cluster, given, annotations=annotations))[0] == 201
    kind = cluster.server.catalogue.find("networking.k8s.io", "v1", "ipaddresses")
    assert kind is not None
    assert not kind.is_custom
    path = f"{DEFINITIONS}/ipaddresses.networking.k8s.io"
    await call(cluster, "DELETE", path)
    found = cluster.server.catalogue.find("networking.k8s.io", "v1", "ipaddresses")
    assert found is kind
