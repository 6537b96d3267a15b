"""Roles and bindings that a real API server refuses."""

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.scheme.statuses import Refusal
from tests.clusters import Cluster
from tests.devcluster.registry.requests import causes, create

pytestmark = pytest.mark.looptime

GROUP = "rbac.authorization.k8s.io"
ACCOUNT = {"kind": "ServiceAccount", "name": "a"}
NAME = (
    'Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case '
    "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


@pytest.mark.parametrize(
    ("kind", "change", "expected"),
    [
        (
            "Role",
            {"rules": [{"verbs": []}]},
            [
                "rules[0].verbs: Required value: verbs must contain at least one value",
                (
                    "rules[0].apiGroups: Required value: resource rules must supply at "
                    "least one api group"
                ),
                (
                    "rules[0].resources: Required value: resource rules must supply at "
                    "least one resource"
                ),
            ],
        ),
        (
            "Role",
            {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/a"]}]},
            [
                (
                    'rules[0].nonResourceURLs: Invalid value: ["/a"]: namespaced rules '
                    "cannot apply to non-resource URLs"
                )
            ],
        ),
        (
            "ClusterRole",
            {
                "rules": [
                    {
                        "verbs": ["get"],
                        "apiGroups": [""],
                        "resources": ["pods"],
                        "nonResourceURLs": ["/a"],
                    }
                ]
            },
            [
                (
                    'rules[0].nonResourceURLs: Invalid value: ["/a"]: rules cannot '
                    "apply to both regular resources and non-resource URLs"
                )
            ],
        ),
        (
            "ClusterRole",
            {"aggregationRule": {}},
            [
                (
                    "aggregationRule.clusterRoleSelectors: Required value: at least "
                    "one clusterRoleSelector required if aggregationRule is non-nil"
                )
            ],
        ),
        (
            "ClusterRoleBinding",
            {
                "roleRef": {"apiGroup": "x", "kind": "Role", "name": ""},
                "subjects": [
                    ACCOUNT,
                    {"kind": "ServiceAccount", "name": "A", "namespace": "b"},
                    {"kind": "User", "name": "", "apiGroup": "x"},
                    {"kind": "Robot", "name": "r"},
                ],
            },
            [
                (
                    'roleRef.apiGroup: Unsupported value: "x": supported values: '
                    f'"{GROUP}"'
                ),
                (
                    'roleRef.kind: Unsupported value: "Role": supported values: '
                    '"ClusterRole"'
                ),
                "roleRef.name: Required value",
                "subjects[0].namespace: Required value",
                f"subjects[1].name: {NAME}",
                "subjects[2].name: Required value",
                (
                    'subjects[2].apiGroup: Unsupported value: "x": supported values: '
                    f'"{GROUP}"'
                ),
                (
                    'subjects[3].kind: Unsupported value: "Robot": supported values: '
                    '"ServiceAccount", "User", "Group"'
                ),
            ],
        ),
        (
            "RoleBinding",
            {"roleRef": {"name": "a/b"}, "subjects": [{**ACCOUNT, "apiGroup": GROUP}]},
            [
                "roleRef.name: Invalid value: \"a/b\": may not contain '/'",
                (
                    f'subjects[0].apiGroup: Unsupported value: "{GROUP}": supported '
                    'values: ""'
                ),
            ],
        ),
    ],
)
async def test_errors_have_fields_and_messages(
    cluster: Cluster, kind: str, change: JSON, expected: list[str]
) -> None:
    """With the fields and the words of a real API server."""
    with pytest.raises(Refusal) as refused:
        create(cluster, kind, change)
    assert causes(refused.value) == expected


async def test_groups_are_filled_in(cluster: Cluster) -> None:
    """Of the role, of users and of groups; an account has none."""
    subjects = [{"kind": "User", "name": "a"}, ACCOUNT]
    created = create(cluster, "RoleBinding", {"subjects": subjects})
    assert created["roleRef"]["apiGroup"] == GROUP
    assert created["subjects"] == [{**subjects[0], "apiGroup": GROUP}, ACCOUNT]
