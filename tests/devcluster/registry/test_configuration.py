"""Config maps and secrets: their keys, and their immutable fields."""

import json

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.devcluster.registry.requests import causes, create, update
from tests.devcluster.requests import call
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime

WRONG_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
    "'[-._a-zA-Z0-9]+')"
)


async def test_an_immutable_object_keeps_its_data(cluster: Cluster) -> None:
    made = create(cluster, "ConfigMap", {"immutable": True, "data": {"a": "1"}})
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert update(cluster, made, labels)["metadata"]["labels"] == {"a": "b"}
    with pytest.raises(Refusal) as raised:
        update(cluster, made, {"data": {"a": "2"}})
    why = "Forbidden: field is immutable when `immutable` is set"
    assert causes(raised.value) == [f"data: {why}"]


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
async def test_data_that_is_too_large_is_refused(cluster: Cluster, kind: str) -> None:
    encoded = "QUFB" * (350 * 1024)
    data = {"data": {"a": encoded}}
    with pytest.raises(Refusal) as raised:
        create(cluster, kind, data)
    field = "[]" if kind == "ConfigMap" else "data"
    why = "Too long: may not be more than 1048576 bytes"
    assert causes(raised.value) == [f"{field}: {why}"]


async def test_the_type_of_a_secret_stays(cluster: Cluster) -> None:
    made = create(cluster, "Secret", {"type": "example.com/token"})
    for change in ({"type": "Opaque"}, {"type": None}):
        with pytest.raises(Refusal) as raised:
            update(cluster, made, change)
        assert causes(raised.value) == [
            'type: Invalid value: "Opaque": field is immutable'
        ]


async def test_data_is_base64(cluster: Cluster) -> None:
    """Else it cannot be decoded, which is upstream's most frequent complaint."""
    body = {"metadata": {"name": "s"}, "data": {"password": "secret!"}}
    path = "/api/v1/namespaces/default/secrets"
    answer = await call(cluster, "POST", path, json.dumps(body).encode())
    message = (
        'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at '
        "input byte 6"
    )
    assert (answer.status, json.loads(answer.body)["message"]) == (400, message)


@rows("path", "kind", "body", "problem")
async def test_the_body_of_a_subresource_has_a_type(
    cluster: Cluster, path: str, kind: str, body: JSON, problem: str
) -> None:
    where = f"/api/v1/namespaces/default/{path}"
    answer = await call(cluster, "POST", where, json.dumps(body).encode())
    start = f'{kind} in version "v1" cannot be handled as a {kind}: json: cannot '
    message = f"{start}unmarshal {problem}"
    assert (answer.status, json.loads(answer.body)["message"]) == (400, message)


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("a b", WRONG_KEY),
        ("..", "must not be '..'"),
        ("..a", "must not start with '..'"),
        ("a" * 254, "must be no more than 253 characters"),
    ],
)
async def test_a_variable_names_a_key_that_data_may_have(
    cluster: Cluster, key: str, problem: str
) -> None:
    for source in ("configMapKeyRef", "secretKeyRef"):
        variable = {"name": "A", "valueFrom": {source: {"name": "a", "key": key}}}
        container = {"name": "c", "image": "i", "env": [variable]}
        with pytest.raises(Refusal) as raised:
            create(cluster, "Pod", {"spec": {"containers": [container]}})
        field = f"spec.containers[0].env[0].valueFrom.{source}.key"
        assert causes(raised.value) == [f'{field}: Invalid value: "{key}": {problem}']
