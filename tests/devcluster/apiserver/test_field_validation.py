"""Unknown and duplicate fields of requests, in upstream's words.

The bodies and the messages are those of upstream's test of field validation
(test/integration/apiserver/field_validation_test.go).
"""

import json

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.registry.apiextensions.test_definitions import (
    define,
    spec,
    version,
)
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"

TYPED = """
{"apiVersion": "apps/v1", "kind": "Deployment",
 "metadata": {"name": "other", "name": "web", "labels": {"app": "nginx"},
              "unknownMeta": "metaVal"},
 "spec": {
  "unknown1": "val1", "unknownDupe": "valDupe", "unknownDupe": "valDupe2",
  "paused": true, "paused": false,
  "selector": {"matchLabels": {"app": "nginx"}},
  "template": {
   "metadata": {"labels": {"app": "nginx"}},
   "spec": {"containers": [
    {"name": "nginx", "image": "nginx:latest", "unknownNested": "val1",
     "imagePullPolicy": "Always", "imagePullPolicy": "Never"}]}}}}
"""
TYPED_PROBLEMS = [
    'duplicate field "metadata.name"',
    'unknown field "metadata.unknownMeta"',
    'unknown field "spec.unknown1"',
    'unknown field "spec.unknownDupe"',
    'duplicate field "spec.paused"',
    'unknown field "spec.template.spec.containers[0].unknownNested"',
    'duplicate field "spec.template.spec.containers[0].imagePullPolicy"',
]
TYPED_SURROGATES = TYPED.replace("val1", r"\ud83d\ude00")
TYPED_YAML = """apiVersion: apps/v1
kind: Deployment
metadata:
  name: dupename
  name: web
  unknownMeta: metaVal
  labels:
    app: nginx
spec:
  unknown1: val1
  unknownDupe: valDupe
  unknownDupe: valDupe2
  paused: true
  paused: false
  selector:
    matchLabels:
      app: nginx
  template:
    metadata:
      labels:
        app: nginx
    spec:
      containers:
      - name: nginx
        image: nginx:latest
        unknownNested: val1
        imagePullPolicy: Always
        imagePullPolicy: Never"""
TYPED_KEYS = [
    'line 5: key "name" already set in map',
    'line 12: key "unknownDupe" already set in map',
    'line 14: key "paused" already set in map',
    'line 28: key "imagePullPolicy" already set in map',
]
SORTED_UNKNOWN = [
    'unknown field "metadata.unknownMeta"',
    'unknown field "spec.template.spec.containers[0].unknownNested"',
    'unknown field "spec.unknown1"',
    'unknown field "spec.unknownDupe"',
]
MERGE_PATCH = """
{"spec": {
  "unknown1": "val1", "unknownDupe": "valDupe", "unknownDupe": "valDupe2",
  "paused": true, "paused": false,
  "template": {"spec": {"containers": [
    {"name": "nginx", "image": "nginx:latest", "unknownNested": "val1",
     "imagePullPolicy": "Always", "imagePullPolicy": "Never"}]}}}}
"""
MERGE_PROBLEMS = [
    'duplicate field "spec.unknownDupe"',
    'duplicate field "spec.paused"',
    'duplicate field "spec.template.spec.containers[0].imagePullPolicy"',
    *SORTED_UNKNOWN[1:],
]
JSON_PATCH = """[
 {"op": "add", "path": "/spec/unknown1", "value": "val1", "foo":"bar"},
 {"op": "add", "path": "/spec/unknown2", "path": "/spec/unknown3", "value": "val1"},
 {"op": "add", "path": "/spec/unknownDupe", "value": "valDupe"},
 {"op": "add", "path": "/spec/unknownDupe", "value": "valDupe2"},
 {"op": "add", "path": "/spec/paused", "value": true},
 {"op": "add", "path": "/spec/template/spec/containers/0/unknownNested", "value": "v"}
]"""
JSON_PATCH_PROBLEMS = [
    'json patch unknown field "[0].foo"',
    'json patch duplicate field "[1].path"',
    'unknown field "spec.template.spec.containers[0].unknownNested"',
    'unknown field "spec.unknown1"',
    'unknown field "spec.unknown3"',
    'unknown field "spec.unknownDupe"',
]

CUSTOM = """
{"apiVersion": "example.com/v1", "kind": "Widget",
 "metadata": {"name": "dupename", "name": "a", "unknownMeta": "metaVal"},
 "spec": {
  "unknown1": "val1", "unknownDupe": "valDupe", "unknownDupe": "valDupe2",
  "knownField1": "val1", "knownField1": "val2",
  "ports": [{"name": "portName", "containerPort": 8080, "protocol": "TCP",
             "hostPort": 8081, "hostPort": 8082, "unknownNested": "val"}],
  "embeddedObj": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
   "name": "my-cm", "namespace": "my-ns", "unknownEmbeddedMeta": "foo"}}}}
"""
CUSTOM_DUPLICATES = [
    'duplicate field "metadata.name"',
    'duplicate field "spec.unknownDupe"',
    'duplicate field "spec.knownField1"',
    'duplicate field "spec.ports[0].hostPort"',
    'unknown field "metadata.unknownMeta"',
    'unknown field "spec.ports[0].unknownNested"',
]
CUSTOM_UNKNOWN = ['unknown field "spec.unknown1"', 'unknown field "spec.unknownDupe"']
EMBEDDED_UNKNOWN = 'unknown field "spec.embeddedObj.metadata.unknownEmbeddedMeta"'

TEXT: JSON = {"type": "string"}
NUMBER: JSON = {"type": "integer", "format": "int32"}


def schema(*, preserves: bool) -> JSON:
    """Return the schema of upstream's test, open or not in the spec."""
    port = {
        **dict.fromkeys(("name", "protocol"), TEXT),
        **dict.fromkeys(("containerPort", "hostPort"), NUMBER),
    }
    embedded = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "properties": {"kind": TEXT, "metadata": {"type": "object"}},
    }
    content = {
        "type": "object",
        **({"x-kubernetes-preserve-unknown-fields": True} if preserves else {}),
        "properties": {
            "knownField1": TEXT,
            "embeddedObj": embedded,
            "ports": {"type": "array", "items": {"type": "object", "properties": port}},
        },
    }
    return {"type": "object", "properties": {"spec": content}}


def warning(problems: list[str]) -> str:
    """Return the header with a warning for each problem."""
    return ", ".join(f"299 - {json.dumps(each)}" for each in problems)


async def check(
    cluster: Cluster,
    request: tuple[str, str, str, str],
    kind: str,
    problems: list[str],
    keys: list[str],
) -> None:
    """Check the refusal, the warnings and their absence; `keys` are those of YAML."""
    method, path, body, media_type = request

    async def answer(validation: str) -> tuple[int, str, str]:
        query = f"?dryRun=All&fieldValidation={validation}"
        found = await call(
            cluster, method, path + query, body.encode(), content_type=media_type
        )
        message = json.loads(found.body).get("message", "")
        return found.status, message, found.headers.get("warning", "")

    lines = "\n  ".join(("yaml: unmarshal errors:", *keys))
    listed = ", ".join([lines, *problems] if keys else problems)
    text = (
        f'{kind} in version "v1" cannot be handled as a {kind}: strict decoding error'
    )
    good = 201 if method == "POST" else 200
    assert await answer("Strict") == (400, f"{text}: {listed}", "")
    assert await answer("Warn") == (good, "", warning([*keys, *problems]))
    assert await answer("Ignore") == (good, "", "")


@pytest.mark.parametrize(
    ("media_type", "body", "keys", "problems"),
    [
        ("application/json", TYPED, [], TYPED_PROBLEMS),
        ("application/yaml", TYPED_YAML, TYPED_KEYS, SORTED_UNKNOWN),
        ("application/yaml", TYPED_SURROGATES, [], TYPED_PROBLEMS),
    ],
)
async def test_unknown_and_duplicate_fields_of_a_new_object_are_named(
    cluster: Cluster, media_type: str, body: str, keys: list[str], problems: list[str]
) -> None:
    request = ("POST", DEPLOYMENTS, body, media_type)
    await check(cluster, request, "Deployment", problems, keys)


@pytest.mark.parametrize(
    ("media_type", "body", "problems"),
    [
        ("application/merge-patch+json", MERGE_PATCH, MERGE_PROBLEMS),
        ("application/strategic-merge-patch+json", MERGE_PATCH, MERGE_PROBLEMS),
        ("application/json-patch+json", JSON_PATCH, JSON_PATCH_PROBLEMS),
    ],
)
async def test_unknown_and_duplicate_fields_of_a_patch_are_named(
    cluster: Cluster, media_type: str, body: str, problems: list[str]
) -> None:
    await call(cluster, "POST", DEPLOYMENTS, TYPED.encode())
    request = ("PATCH", f"{DEPLOYMENTS}/web", body, media_type)
    await check(cluster, request, "Deployment", problems, [])


@pytest.mark.parametrize("preserves", [False, True])
async def test_unknown_and_duplicate_fields_of_a_custom_resource_are_named(
    cluster: Cluster, *, preserves: bool
) -> None:
    """Duplicates also where unknown fields are preserved; metadata inside, too."""
    served = version(schema={"openAPIV3Schema": schema(preserves=preserves)})
    status, _ = await define(cluster, spec(versions=[served]))
    assert status == 201
    unknown = [] if preserves else CUSTOM_UNKNOWN
    problems = [*CUSTOM_DUPLICATES, *unknown, EMBEDDED_UNKNOWN]
    request = ("POST", WIDGETS, CUSTOM, "application/json")
    await check(cluster, request, "Widget", problems, [])


async def test_a_number_of_yaml_may_be_written_with_a_fraction_of_zero(
    cluster: Cluster,
) -> None:
    """Go turns YAML into JSON first; in JSON such a number is no integer."""
    body = TYPED_YAML.replace("  paused: true\n", "  replicas: 2.0\n")
    answer = await call(
        cluster, "POST", DEPLOYMENTS, body.encode(), content_type="application/yaml"
    )
    assert json.loads(answer.body)["spec"]["replicas"] == 2
    text = TYPED.replace('"paused": true', '"replicas": 2.5')
    answer = await call(cluster, "POST", DEPLOYMENTS, text.encode())
    assert json.loads(answer.body)["message"] == (
        'Deployment in version "v1" cannot be handled as a Deployment: json: cannot '
        "unmarshal number 2.5 into Go struct field DeploymentSpec.spec.replicas of "
        "type int32"
    )


async def test_repeated_keys_of_an_applied_configuration_are_named(
    cluster: Cluster,
) -> None:
    """By their lines, also of JSON; unknown fields are refused always."""
    lines = [line for line in TYPED_YAML.splitlines() if "nknown" not in line]
    keys = [
        'line 5: key "name" already set in map',
        'line 10: key "paused" already set in map',
        'line 23: key "imagePullPolicy" already set in map',
    ]

    async def answer(body: str, validation: str) -> tuple[int, str, str]:
        query = f"dryRun=All&fieldManager=a&fieldValidation={validation}"
        path = f"{DEPLOYMENTS}/web?{query}"
        media_type = "application/apply-patch+yaml"
        sent = body.encode()
        found = await call(cluster, "PATCH", path, sent, content_type=media_type)
        message = json.loads(found.body).get("message", "")
        return found.status, message, found.headers.get("warning", "")

    body = "\n".join(lines)
    errors = "\n  ".join(("yaml: unmarshal errors:", *keys))
    text = f"error strict decoding YAML: error converting YAML to JSON: {errors}"
    assert await answer(body, "Strict") == (400, text, "")
    assert await answer(body, "Warn") == (201, "", warning(keys))
    assert await answer(body, "Ignore") == (201, "", "")
    body = '{"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1",\n"a": "2"}}'
    found = await call(
        cluster,
        "PATCH",
        "/api/v1/namespaces/default/configmaps/a?fieldManager=a",
        body.encode(),
        content_type="application/apply-patch+yaml",
    )
    assert found.headers["warning"] == warning(['line 2: key "a" already set in map'])
