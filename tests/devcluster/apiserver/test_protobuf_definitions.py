"""Custom resource definitions and API services in protobuf, and refused watches."""

import json

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.devcluster.scheme.models import built_in
from controller_manager.devcluster.scheme.protobuf import MEDIA_TYPE, decode, encode
from tests.clusters import TOKEN, Cluster
from tests.controllers.custom_resources import definition
from tests.devcluster.apiserver.test_protobuf_answers import split
from tests.devcluster.requests import call
from tests.devcluster.rows import parsed, rows

pytestmark = pytest.mark.looptime

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
PODS = "/api/v1/namespaces/default/pods"

FIELDS: JSON = parsed("""
    list:
      type: array
      items: {type: string}
      default: [x]
      x-kubernetes-list-type: set
    map:
      {type: object, additionalProperties: {type: number, minimum: 0, maximum: 0.5}}
    any: {type: object, x-kubernetes-preserve-unknown-fields: true}
    open: {type: object, additionalProperties: true}
    choice: {type: string, enum: [a, '', null], nullable: true}
    either:
      {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
    zero: {type: integer, default: 0, example: {a: [1.5, null, '']}}
    empty: {type: object, default: {}, properties: {a: {type: string}}}
    flag: {type: boolean, default: false}
    rule:
      type: string
      x-kubernetes-validations:
        [{rule: self != oldSelf, message: 'no', optionalOldSelf: false}]""")


def widgets() -> JSON:
    """Return a definition whose schema has all that is special in Go's types."""
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    found = definition(subresources={"status": {}, "scale": scale})
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": FIELDS},
            "status": anything,
        },
    }
    found["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    return found


def service() -> JSON:
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1.a.example.com"},
        "spec": {
            "group": "a.example.com",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 15,
            "caBundle": "YQ==",
            "service": {"name": "a", "namespace": "default", "port": 8443},
        },
    }


def decoded(answer: Response) -> JSON:
    assert answer.headers["content-type"] == MEDIA_TYPE
    return decode(answer.body, built_in())


@pytest.mark.parametrize(
    ("path", "obj"), [(DEFINITIONS, widgets()), (SERVICES, service())]
)
async def test_it_is_the_same_in_json_and_in_protobuf(
    cluster: Cluster, path: str, obj: JSON
) -> None:
    """Created, read, replaced, changed, listed and watched."""
    body = encode(obj, built_in())
    assert body is not None
    types = {"accept": MEDIA_TYPE, "content_type": MEDIA_TYPE}
    plain = await call(cluster, "POST", f"{path}?dryRun=All", json.dumps(obj).encode())
    created = decoded(await call(cluster, "POST", path, body, **types))
    assert created["spec"] == json.loads(plain.body)["spec"]
    mine = f"{path}/{obj['metadata']['name']}"
    read = await call(cluster, "GET", mine, accept=MEDIA_TYPE)
    stored = json.loads((await call(cluster, "GET", mine)).body)
    assert decoded(read) == stored
    replaced = await call(cluster, "PUT", mine, read.body, **types)
    assert decoded(replaced) == stored
    patch = b'{"metadata":{"labels":{"a":"b"}}}'
    merge = "application/merge-patch+json"
    changed = await call(
        cluster, "PATCH", mine, patch, accept=MEDIA_TYPE, content_type=merge
    )
    assert decoded(changed)["metadata"]["labels"] == {"a": "b"}
    listed = decoded(await call(cluster, "GET", path, accept=MEDIA_TYPE))
    names = [each["metadata"]["name"] for each in listed["items"]]
    assert obj["metadata"]["name"] in names
    headers = {"authorization": f"Bearer {TOKEN}", "accept": MEDIA_TYPE}
    version = stored["metadata"]["resourceVersion"]
    query = (("watch", "1"), ("resourceVersion", version))
    watch = await cluster.server.handle(Request("GET", path, query, headers))
    assert not isinstance(watch, Response)
    [(event, seen)] = split(await anext(watch.chunks()))
    await watch.close()
    assert (event, seen) == ("MODIFIED", decoded(changed))


@rows("query", "code", "message")
async def test_a_watch_that_is_refused_gets_a_status_in_protobuf(
    cluster: Cluster, query: str, code: int, message: str
) -> None:
    accept = f"{MEDIA_TYPE};stream=watch"
    answer = await call(cluster, "GET", f"{PODS}?watch=1&{query}", accept=accept)
    status = decoded(answer)
    assert (answer.status, status["kind"], status["code"]) == (code, "Status", code)
    assert message in status["message"]
