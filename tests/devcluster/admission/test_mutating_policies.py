"""Mutating admission policies change objects as upstream's."""

import json
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.admission.webhook_server import EVERYTHING, GROUP, request
from tests.devcluster.requests import call
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime


PODS = "/api/v1/namespaces/default/pods"
POLICIES = f"{GROUP}/mutatingadmissionpolicies"


def applying(expression: str) -> JSON:
    patch = {"expression": expression}
    return {"patchType": "ApplyConfiguration", "applyConfiguration": patch}


def patching(expression: str) -> JSON:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def spec_of(*mutations: JSON, **parts: Any) -> JSON:
    rules = [{**EVERYTHING, "resources": ["pods"], "operations": ["CREATE"]}]
    return {
        "matchConstraints": {"resourceRules": rules},
        "mutations": list(mutations),
        "reinvocationPolicy": "Never",
        **parts,
    }


async def bind(cluster: Cluster, spec: JSON, name: str = "p", **binding: Any) -> None:
    policy = {"metadata": {"name": name}, "spec": spec}
    await request(cluster, "POST", POLICIES, policy)
    body = {"metadata": {"name": name}, "spec": {"policyName": name, **binding}}
    await request(cluster, "POST", f"{GROUP}/mutatingadmissionpolicybindings", body)


def pod() -> JSON:
    metadata = {"name": "a", "labels": {"app": "a"}}
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def write(cluster: Cluster) -> tuple[int, JSON]:
    answer = await call(cluster, "POST", PODS, json.dumps(pod()).encode())
    return answer.status, json.loads(answer.body)


SIDECAR = """
Object{
  metadata: Object.metadata{labels: {"by": "policy"}},
  spec: Object.spec{
    initContainers: [
      Object.spec.initContainers{
        name: "proxy", image: "proxy:v1", restartPolicy: "Always"
      }
    ]
  }
}"""


async def test_a_configuration_is_merged(cluster: Cluster) -> None:
    """Lists by their keys; defaults are filled in."""
    await bind(cluster, spec_of(applying(SIDECAR)))
    code, made = await write(cluster)
    assert (code, made["metadata"]["labels"]) == (201, {"app": "a", "by": "policy"})
    (proxy,) = made["spec"]["initContainers"]
    (container,) = made["spec"]["containers"]
    named = {"name": "proxy", "image": "proxy:v1", "restartPolicy": "Always"}
    assert proxy == {**container, **named, "imagePullPolicy": "IfNotPresent"}


async def test_mutations_see_the_changes_of_earlier_ones(cluster: Cluster) -> None:
    add = (
        "[JSONPatch{op: 'add', path: '/metadata/labels/' + "
        "jsonpatch.escapeKey('example.com/n'), value: "
        "string(size(object.metadata.labels))}]"
    )
    await bind(cluster, spec_of(applying(SIDECAR), patching(add)))
    _, made = await write(cluster)
    expected = {"app": "a", "by": "policy", "example.com/n": "2"}
    assert made["metadata"]["labels"] == expected


@rows("mutation", "parts", "expected")
async def test_a_mutation_that_fails_refuses(
    cluster: Cluster, mutation: JSON, parts: JSON, expected: str
) -> None:
    await bind(cluster, spec_of(mutation, **parts))
    code, said = await write(cluster)
    if not expected:
        assert (code, said["metadata"]["labels"]) == (201, {"app": "a"})
        return
    message = f"policy 'p' with binding 'p' denied request: {expected}"
    assert said == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": "Invalid",
        "details": {"name": "a", "kind": "pods", "causes": [{"message": message}]},
        "code": 403,
    }


async def test_a_policy_may_be_asked_a_second_time(cluster: Cluster) -> None:
    count = (
        "Object{metadata: Object.metadata{annotations: {'seen': "
        "string(size(object.metadata.labels))}}}"
    )
    await bind(cluster, spec_of(applying(count), reinvocationPolicy="IfNeeded"), "a")
    label = "Object{metadata: Object.metadata{labels: {'late': 'yes'}}}"
    await bind(cluster, spec_of(applying(label)), "b")
    _, made = await write(cluster)
    assert made["metadata"]["annotations"] == {"seen": "2"}


@rows("mutation", "expected")
async def test_a_wrong_mutation_is_refused(
    cluster: Cluster, mutation: JSON, expected: str
) -> None:
    body = {"metadata": {"name": "p"}, "spec": spec_of(mutation)}
    answer = await call(cluster, "POST", POLICIES, json.dumps(body).encode())
    causes = json.loads(answer.body)["details"]["causes"]
    assert [f"{each['field']}: {each['message']}" for each in causes] == [expected]
