"""Validating admission policies refuse and warn as upstream's."""

import json
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster
from tests.devcluster.admission.webhook_server import EVERYTHING, GROUP, request
from tests.devcluster.registry.apiextensions.test_definitions import define
from tests.devcluster.registry.apiextensions.test_objects import widgets
from tests.devcluster.requests import call
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime


MAPS = "/api/v1/namespaces/default/configmaps"
POLICIES = f"{GROUP}/validatingadmissionpolicies"
BINDINGS = f"{GROUP}/validatingadmissionpolicybindings"
DENIED = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "


def spec_of(*expressions: str, **parts: Any) -> JSON:
    rules = [{**EVERYTHING, "resources": ["configmaps"]}]
    return {
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": each} for each in expressions],
        **parts,
    }


async def bind(cluster: Cluster, spec: JSON, **binding: Any) -> None:
    policy = {"metadata": {"name": "p"}, "spec": spec}
    await request(cluster, "POST", POLICIES, policy)
    actions = {"policyName": "p", "validationActions": ["Deny"], **binding}
    body = {"metadata": {"name": "b"}, "spec": actions}
    await request(cluster, "POST", BINDINGS, body)


async def write(cluster: Cluster, **parts: Any) -> tuple[int, str, str]:
    """Create a config map; return the code, the reason and the message."""
    body = {"metadata": {"name": "a", **parts.pop("metadata", {})}, **parts}
    answer = await call(cluster, "POST", MAPS, json.dumps(body).encode())
    said = json.loads(answer.body)
    return answer.status, said.get("reason", ""), said.get("message", "")


async def test_a_policy_refuses(cluster: Cluster) -> None:
    await bind(cluster, spec_of("object.data.x == 'y'"))
    body = {"metadata": {"name": "a"}, "data": {"x": "z"}}
    answer = await call(cluster, "POST", MAPS, json.dumps(body).encode())
    message = f"{DENIED}failed expression: object.data.x == 'y'"
    assert json.loads(answer.body) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f'configmaps "a" is forbidden: {message}',
        "reason": "Invalid",
        "details": {
            "name": "a",
            "kind": "configmaps",
            "causes": [{"message": message}],
        },
        "code": 422,
    }
    assert (await write(cluster, data={"x": "y"}))[0] == 201


def _told(expression: str, **parts: Any) -> JSON:
    return spec_of(validations=[{"expression": expression, **parts}])


@rows("spec", "expected")
async def test_a_policy_is_evaluated(
    cluster: Cluster, spec: JSON, expected: str
) -> None:
    await bind(cluster, spec)
    code, _, message = await write(cluster, data={"x": "z"})
    prefix = f'configmaps "a" is forbidden: {DENIED}'
    assert (code, message) == ((422, prefix + expected) if expected else (201, ""))


@pytest.mark.parametrize(
    ("reason", "code"),
    [("Unauthorized", 401), ("Forbidden", 403), ("RequestEntityTooLarge", 413)],
)
async def test_a_reason_has_its_code(cluster: Cluster, reason: str, code: int) -> None:
    await bind(cluster, _told("false", reason=reason))
    assert (await write(cluster))[:2] == (code, reason)


async def test_a_binding_may_only_warn(cluster: Cluster) -> None:
    spec = spec_of("false", "object.x")
    spec["validations"][1]["expression"] = "object.x == 1"
    await bind(cluster, spec, validationActions=["Warn", "Audit"])
    body = json.dumps({"metadata": {"name": "a"}}).encode()
    answer = await call(cluster, "POST", MAPS, body)
    who = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': "
    assert (answer.status, answer.headers["warning"]) == (
        201,
        (
            f'299 - "{who}failed expression: false", '
            f"299 - \"{who}expression 'object.x == 1' resulted in error: no such key: "
            'x"'
        ),
    )


@pytest.mark.parametrize(
    ("match", "binding", "is_evaluated"),
    [
        ({}, {}, True),
        ({"excludeResourceRules": [EVERYTHING]}, {}, False),
        ({"namespaceSelector": {"matchLabels": {"a": "b"}}}, {}, False),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, {}, True),
        ({}, {"objectSelector": {"matchLabels": {"a": "c"}}}, False),
        ({}, {"resourceRules": [{**EVERYTHING, "resources": ["pods"]}]}, False),
        ({}, {"resourceRules": [{**EVERYTHING, "resourceNames": ["b"]}]}, False),
        ({}, {"resourceRules": [{**EVERYTHING, "resourceNames": ["a"]}]}, True),
    ],
)
async def test_a_policy_applies_only_to_writes_that_it_matches(
    cluster: Cluster, match: JSON, binding: JSON, is_evaluated: bool
) -> None:
    spec = spec_of("false")
    spec["matchConstraints"] |= match
    await bind(cluster, spec, matchResources=binding)
    code, *_ = await write(cluster, metadata={"labels": {"a": "b"}})
    assert code == (422 if is_evaluated else 201)


MAP = {"apiVersion": "v1", "kind": "ConfigMap"}
OTHER = {"apiVersion": "x.io/v1", "kind": "Y"}
BY_LABEL = {"selector": {"matchLabels": {"is": "limits"}}}
FALSE = "failed expression: params.data.x == object.data.x"
NONE = (
    "failed to configure binding: no params found for policy binding with `Deny` "
    "parameterNotFoundAction"
)
UNKNOWN = (
    "failed to configure policy: failed to find resource referenced by paramKind: "
    "'x.io/v1, Kind=Y'"
)


@pytest.mark.parametrize(
    ("kind", "reference", "expected"),
    [
        (MAP, {"name": "limits"}, FALSE),
        (MAP, {"name": "limits", "namespace": "kube-system"}, NONE),
        (MAP, BY_LABEL, FALSE),
        (MAP, {"name": "no", "parameterNotFoundAction": "Allow"}, ""),
        (OTHER, {"name": "a"}, UNKNOWN),
    ],
)
async def test_parameters_are_found(
    cluster: Cluster, kind: JSON, reference: JSON, expected: str
) -> None:
    metadata = {"name": "limits", "labels": {"is": "limits"}}
    body = {"metadata": metadata, "data": {"x": "1"}}
    await request(cluster, "POST", MAPS, body)
    spec = spec_of("params.data.x == object.data.x", paramKind=kind)
    await bind(cluster, spec, paramRef={"parameterNotFoundAction": "Deny", **reference})
    code, _, message = await write(cluster, data={"x": "2"})
    assert code == (422 if expected else 201)
    assert message.endswith(f"denied request: {expected}" if expected else "")


async def test_parameters_may_be_custom_resources(cluster: Cluster) -> None:
    await define(cluster, widgets())
    path = "/apis/example.com/v1/namespaces/default/widgets"
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    await request(cluster, "POST", path, {**body, "spec": {"color": "red", "size": 3}})
    kind = {"apiVersion": "example.com/v1", "kind": "Widget"}
    spec = spec_of("size(object.data.x) <= params.spec.size", paramKind=kind)
    reference = {"name": "w", "parameterNotFoundAction": "Deny"}
    await bind(cluster, spec, paramRef=reference)
    assert (await write(cluster, data={"x": "four"}))[0] == 422
    assert (await write(cluster, data={"x": "one"}))[0] == 201


@rows("expression", "detail")
@pytest.mark.parametrize("field", ["validations", "matchConditions"])
async def test_an_expression_that_does_not_compile_is_refused(
    cluster: Cluster, field: str, expression: str, detail: str
) -> None:
    condition = {"expression": expression}
    if field == "matchConditions":
        condition["name"] = "a"
    spec = {**spec_of("true"), field: [condition]}
    body = {"metadata": {"name": "p"}, "spec": spec}
    answer = await call(cluster, "POST", POLICIES, json.dumps(body).encode())
    assert answer.status == 422
    causes = json.loads(answer.body)["details"]["causes"]
    assert causes == [
        {
            "reason": "FieldValueInvalid",
            "message": f"Invalid value: {json.dumps(expression)}: {detail}",
            "field": f"spec.{field}[0].expression",
        }
    ]


async def test_policies_are_exempt_from_policies(cluster: Cluster) -> None:
    spec = spec_of("false")
    spec["matchConstraints"]["resourceRules"] = [EVERYTHING]
    await bind(cluster, spec)
    assert (await write(cluster))[0] == 422
    await request(cluster, "DELETE", f"{BINDINGS}/b")
    assert (await write(cluster))[0] == 201


async def test_reviews_are_exempt_from_policies(cluster: Cluster) -> None:
    """A policy must not prevent authentication and authorization."""
    spec = spec_of("false")
    spec["matchConstraints"]["resourceRules"] = [EVERYTHING]
    await bind(cluster, spec)
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    made = await request(cluster, "POST", path, {})
    assert made["status"]["userInfo"]["username"] == "admin"
