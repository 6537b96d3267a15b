"""Definitions in the style of well-known projects, with their objects."""

from pathlib import Path

import msgspec
import pytest
import yaml

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Response
from tests.clusters import Cluster
from tests.devcluster.registry.apiextensions.test_definitions import DEFINITIONS
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime


DIRECTORY = Path(__file__).parents[3] / "data" / "custom_resources"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def documents(name: str) -> list[JSON]:
    """Return a definition, a right object, a wrong one, and what the server shows."""
    return list(yaml.safe_load_all((DIRECTORY / f"{name}.yaml").read_text()))


def collection(definition: JSON) -> str:
    spec = definition["spec"]
    version = spec["versions"][0]["name"]
    plural = spec["names"]["plural"]
    return f"/apis/{spec['group']}/{version}/namespaces/default/{plural}"


async def post(cluster: Cluster, path: str, obj: JSON) -> Response:
    strict = f"{path}?fieldValidation=Strict"
    return await call(cluster, "POST", strict, obj)


@pytest.mark.parametrize("name", [each.stem for each in DIRECTORY.glob("*.yaml")])
async def test_its_objects_are_shown_and_checked(cluster: Cluster, name: str) -> None:
    definition, right, wrong, expected = documents(name)
    answer = await post(cluster, DEFINITIONS, definition)
    assert answer.status == 201, answer.body
    path = collection(definition)
    answer = await post(cluster, path, right)
    assert answer.status == 201, answer.body
    table = msgspec.json.decode((await call(cluster, "GET", path, accept=TABLE)).body)
    assert [each["cells"] for each in table["rows"]] == [expected["cells"]]
    refused = msgspec.json.decode((await post(cluster, path, wrong)).body)
    assert refused["code"] == 422, refused
    found = [
        f"{each['field']}: {each['message']}" for each in refused["details"]["causes"]
    ]
    assert found == expected["says"]


async def test_defaults_are_nested(cluster: Cluster) -> None:
    definition, right, *_ = documents("routes")
    await post(cluster, DEFINITIONS, definition)
    answer = await post(cluster, collection(definition), right)
    stored = msgspec.json.decode(answer.body)["spec"]
    path = {"type": "PathPrefix", "value": "/"}
    assert stored["rules"] == [{"matches": [{"path": path}]}]
    assert stored["parentRefs"][0]["group"] == "gateway.example.com"


async def test_a_definition_of_a_project_passes_validation_by_the_client(
    cluster: Cluster,
) -> None:
    """Nothing in it is unknown; and the old version warns of its end."""
    definition, right, *_ = documents("certificates")
    await post(cluster, DEFINITIONS, definition)
    await post(cluster, collection(definition), right)
    old = collection(definition).replace("/v1/", "/v1alpha2/")
    answer = await call(cluster, "GET", f"{old}/right")
    assert answer.headers["warning"] == (
        '299 - "pki.example.com/v1alpha2 goes with the next release"'
    )
    assert msgspec.json.decode(answer.body)["spec"] == right["spec"]
