"""Config maps and secrets: their keys, and their immutable fields."""

import json

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.devcluster.registry.requests import causes, create, update
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

IMMUTABLE = "Forbidden: field is immutable when `immutable` is set"
WRONG_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    "(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
    "'[-._a-zA-Z0-9]+')"
)


@pytest.mark.parametrize(
    ("kind", "change", "problems"),
    [
        ("ConfigMap", {"data": {"a": "2"}}, [f"data: {IMMUTABLE}"]),
        ("ConfigMap", {"binaryData": {"b": "Yg=="}}, [f"binaryData: {IMMUTABLE}"]),
        ("ConfigMap", {"immutable": None}, [f"immutable: {IMMUTABLE}"]),
        (
            "Secret",
            {"immutable": False, "stringData": {"a": "2"}},
            [f"immutable: {IMMUTABLE}", f"data: {IMMUTABLE}"],
        ),
        ("Secret", {"metadata": {"labels": {"a": "b"}}}, []),
    ],
)
async def test_an_immutable_object_keeps_its_data(
    cluster: Cluster, kind: str, change: JSON, problems: list[str]
) -> None:
    """And stays immutable; its metadata may change."""
    field = "data" if kind == "ConfigMap" else "stringData"
    made = create(cluster, kind, {"immutable": True, field: {"a": "1"}})
    if not problems:
        assert update(cluster, made, change)["metadata"]["labels"] == {"a": "b"}
        return
    with pytest.raises(Refusal) as raised:
        update(cluster, made, change)
    assert causes(raised.value) == problems


async def test_the_type_of_a_secret_stays(cluster: Cluster) -> None:
    """As upstream, also where the update names none."""
    made = create(cluster, "Secret", {"type": "example.com/token"})
    for change in ({"type": "Opaque"}, {"type": None}):
        with pytest.raises(Refusal) as raised:
            update(cluster, made, change)
        assert causes(raised.value) == [
            'type: Invalid value: "Opaque": field is immutable'
        ]


@pytest.mark.parametrize(
    ("kind", "change", "problems"),
    [
        (
            "ConfigMap",
            {"data": {"a b": "", "..": "", "..c": ""}},
            [
                f'data[a b]: Invalid value: "a b": {WRONG_KEY}',
                "data[..]: Invalid value: \"..\": must not be '..'",
                "data[..c]: Invalid value: \"..c\": must not start with '..'",
            ],
        ),
        (
            "ConfigMap",
            {"data": {"a": "1"}, "binaryData": {"a": "MQ=="}},
            ['data[a]: Invalid value: "a": duplicate of key present in binaryData'],
        ),
        (
            "ConfigMap",
            {"data": {"a": "x" * 1024 * 1024 + "x"}},
            ["[]: Too long: may not be more than 1048576 bytes"],
        ),
        (
            "Secret",
            {"type": "kubernetes.io/tls"},
            ["data[tls.crt]: Required value", "data[tls.key]: Required value"],
        ),
        (
            "Secret",
            {"type": "kubernetes.io/basic-auth"},
            ["data[username]: Required value", "data[password]: Required value"],
        ),
        (
            "Secret",
            {
                "type": "kubernetes.io/dockerconfigjson",
                "stringData": {".dockerconfigjson": "{a"},
            },
            [
                (
                    'data[.dockerconfigjson]: Invalid value: "<secret contents '
                    'redacted>": '
                    "invalid character 'a' looking for beginning of object key string"
                )
            ],
        ),
        (
            "Secret",
            {"type": "kubernetes.io/service-account-token"},
            [
                (
                    "metadata.annotations[kubernetes.io/service-account.name]: "
                    "Required value"
                )
            ],
        ),
    ],
)
async def test_wrong_data_is_refused(
    cluster: Cluster, kind: str, change: JSON, problems: list[str]
) -> None:
    """With upstream's words."""
    with pytest.raises(Refusal) as raised:
        create(cluster, kind, change)
    assert causes(raised.value) == problems


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


@pytest.mark.parametrize(
    ("path", "kind", "body", "problem"),
    [
        (
            "pods/p/eviction",
            "Eviction",
            {"metadata": []},
            "array into Go struct field Eviction.metadata of type v1.ObjectMeta",
        ),
        (
            "pods/p/binding",
            "Binding",
            {"target": "n"},
            "string into Go struct field Binding.target of type v1.ObjectReference",
        ),
        (
            "serviceaccounts/a/token",
            "TokenRequest",
            {"spec": {"audiences": "a"}},
            (
                "string into Go struct field TokenRequestSpec.spec.audiences of type "
                "[]string"
            ),
        ),
    ],
)
async def test_the_body_of_a_subresource_has_a_type(
    cluster: Cluster, path: str, kind: str, body: JSON, problem: str
) -> None:
    """A body of another type is refused before all other checks."""
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
    """Of a config map or of a secret."""
    for source in ("configMapKeyRef", "secretKeyRef"):
        variable = {"name": "A", "valueFrom": {source: {"name": "a", "key": key}}}
        container = {"name": "c", "image": "i", "env": [variable]}
        with pytest.raises(Refusal) as raised:
            create(cluster, "Pod", {"spec": {"containers": [container]}})
        field = f"spec.containers[0].env[0].valueFrom.{source}.key"
        assert causes(raised.value) == [f'{field}: Invalid value: "{key}": {problem}']
