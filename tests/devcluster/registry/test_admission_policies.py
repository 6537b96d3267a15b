"""Admission policies are stored with upstream's defaults, and checked."""

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.devcluster.registry.requests import causes, create, update

pytestmark = pytest.mark.looptime

POLICY = "ValidatingAdmissionPolicy"
BINDING = "ValidatingAdmissionPolicyBinding"


def refused(cluster: Cluster, kind: str, spec: JSON) -> list[str]:
    with pytest.raises(Refusal) as raised:
        create(cluster, kind, {"spec": spec})
    return list(dict.fromkeys(causes(raised.value)))


async def test_a_policy_has_defaults(cluster: Cluster) -> None:
    """It fails closed, and matches everything of what its rules name."""
    created = create(cluster, POLICY)
    everything = ["*"]
    assert created["spec"] == {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": {},
            "objectSelector": {},
            "resourceRules": [
                {
                    "apiGroups": everything,
                    "apiVersions": everything,
                    "operations": everything,
                    "resources": everything,
                    "scope": "*",
                }
            ],
        },
        "validations": [{"expression": "true"}],
    }
    assert created["status"] == {}
    changed = update(cluster, created, {"spec": {"failurePolicy": "Ignore"}})
    assert changed["metadata"]["generation"] == 2


RULE = "spec.matchConstraints.resourceRules[0]"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"failurePolicy": "Warn"},
            [
                (
                    'spec.failurePolicy: Unsupported value: "Warn": supported values: '
                    '"Fail", "Ignore"'
                )
            ],
        ),
        ({"matchConstraints": None}, ["spec.matchConstraints: Required value"]),
        (
            {"matchConstraints": {"resourceRules": None}},
            ["spec.matchConstraints.resourceRules: Required value"],
        ),
        (
            {
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": ["*", "apps"],
                            "apiVersions": [""],
                            "operations": ["READ"],
                            "scope": "Pod",
                        }
                    ]
                }
            },
            [
                (
                    f'{RULE}.operations[0]: Unsupported value: "READ": supported '
                    'values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"'
                ),
                (
                    f'{RULE}.apiGroups: Invalid value: ["*","apps"]: if '
                    "'*' is present, must not specify other API groups"
                ),
                f"{RULE}.apiVersions[0]: Required value",
                f"{RULE}.resources: Required value",
                (
                    f'{RULE}.scope: Unsupported value: "Pod": supported values: "*", '
                    '"Cluster", "Namespaced"'
                ),
            ],
        ),
        (
            {"paramKind": {"kind": "A"}},
            ["spec.paramKind.apiVersion: Required value"],
        ),
        (
            {"validations": None},
            [
                (
                    "spec.validations: Required value: validations or auditAnnotations "
                    "must contain at least one item"
                ),
                (
                    "spec.auditAnnotations: Required value: validations or "
                    "auditAnnotations must contain at least one item"
                ),
            ],
        ),
        (
            {"validations": [{"expression": " ", "message": "a\nb", "reason": "Bad"}]},
            [
                (
                    "spec.validations[0].expression: Required value: expression is not "
                    "specified"
                ),
                (
                    'spec.validations[0].message: Invalid value: "a\\nb": message must '
                    "not contain line breaks"
                ),
                (
                    'spec.validations[0].reason: Unsupported value: "Bad": supported '
                    'values: "Forbidden", "Invalid", "RequestEntityTooLarge", '
                    '"Unauthorized"'
                ),
            ],
        ),
        (
            {
                "matchConditions": [{"expression": "true"}],
                "variables": [
                    {"name": "a-b", "expression": "1"},
                    {"name": "a", "expression": ""},
                ],
                "auditAnnotations": [{"key": "a"}],
            },
            [
                "spec.matchConditions[0].name: Required value",
                (
                    'spec.variables[0].name: Invalid value: "a-b": name is not a valid '
                    "CEL identifier"
                ),
                (
                    "spec.variables[1].expression: Required value: expression is not "
                    "specified"
                ),
                (
                    "spec.auditAnnotations[0].valueExpression: Required value: "
                    "valueExpression is not specified"
                ),
            ],
        ),
    ],
)
async def test_the_errors_of_a_policy_are_reported(
    cluster: Cluster, spec: JSON, expected: list[str]
) -> None:
    """In upstream's order."""
    assert refused(cluster, POLICY, spec) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"policyName": None}, ["spec.policyName: Required value"]),
        (
            {"validationActions": None},
            [
                (
                    "spec.validationActions: Required value: at least one validation "
                    "action is required"
                )
            ],
        ),
        (
            {"validationActions": ["Deny", "Warn", "Deny", "Log"]},
            [
                'spec.validationActions[2]: Duplicate value: "Deny"',
                (
                    'spec.validationActions[3]: Unsupported value: "Log": supported '
                    'values: "Audit", "Deny", "Warn"'
                ),
                (
                    "spec.validationActions: Invalid value: "
                    '["Deny","Warn","Deny","Log"]: must not contain both Deny and Warn '
                    "(repeating the same validation failure information in the API "
                    "response and headers serves no purpose)"
                ),
            ],
        ),
        (
            {"paramRef": {"name": "a", "selector": {}}},
            [
                (
                    "spec.paramRef.name: Forbidden: name and selector are mutually "
                    "exclusive"
                ),
                (
                    "spec.paramRef.selector: Forbidden: name and selector are mutually "
                    "exclusive"
                ),
                "spec.paramRef.parameterNotFoundAction: Required value",
            ],
        ),
        (
            {"paramRef": {"parameterNotFoundAction": "Skip"}},
            [
                (
                    "spec.paramRef: Required value: one of name or selector must be "
                    "specified"
                ),
                (
                    'spec.paramRef.parameterNotFoundAction: Unsupported value: "Skip": '
                    'supported values: "Deny", "Allow"'
                ),
            ],
        ),
    ],
)
async def test_the_errors_of_a_binding_are_reported(
    cluster: Cluster, spec: JSON, expected: list[str]
) -> None:
    """Its policy need not exist."""
    assert refused(cluster, BINDING, spec) == expected
