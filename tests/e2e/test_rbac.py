"""kubectl shows the rights of users, and grants no more than its user has."""

import re

from tests.e2e.clusters import NEEDS_KUBECTL, Kubectl

pytestmark = NEEDS_KUBECTL

FLAGS = ("--rbac", "--nodes=0")
"""A cluster with roles."""


def rows(output: str) -> list[str]:
    """Return the lines of a table; the columns are two spaces apart."""
    return [re.sub(r" {2,}", "  ", line).rstrip() for line in output.splitlines()]


def test_a_user_sees_its_name_and_its_rights(kubectl: Kubectl) -> None:
    """With `auth whoami`, `auth can-i` and its list."""
    assert rows(kubectl("auth", "whoami", "--as=jane", "--as-group=devs")) == [
        "ATTRIBUTE  VALUE",
        "Username  jane",
        "Groups  [devs system:authenticated]",
    ]
    assert kubectl("auth", "can-i", "list", "pods", "--as=jane", ok=False) == "no\n"
    kubectl("create", "rolebinding", "jane", "--clusterrole=view", "--user=jane")
    assert kubectl("auth", "can-i", "list", "pods", "--as=jane") == "yes\n"
    assert kubectl("auth", "can-i", "get", "secrets", "--as=jane", ok=False) == "no\n"
    listed = rows(kubectl("auth", "can-i", "--list", "--as=jane"))
    for expected in (
        "Resources  Non-Resource URLs  Resource Names  Verbs",
        "selfsubjectreviews.authentication.k8s.io  []  []  [create]",
        "pods/log  []  []  [get list watch]",
        "deployments.apps  []  []  [get list watch]",
        "  [/version]  []  [get]",
    ):
        assert expected in listed
    assert not any(line.startswith("secrets") for line in listed)


def test_roles_are_reconciled(kubectl: Kubectl) -> None:
    manifest = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: mended}
rules:
- {apiGroups: [""], resources: [pods], verbs: [%s]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: mended}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %s}
subjects: [{kind: ServiceAccount, name: bot, namespace: default}]
"""
    for values in (("get", "mended"), ("list", "view")):
        kubectl("auth", "reconcile", "-f", "-", stdin=manifest % values)
    verbs = kubectl("get", "clusterrole", "mended", "-o", "jsonpath={.rules[*].verbs}")
    assert verbs == '["get"] ["list"]'
    role = ("clusterrolebinding", "mended", "-o", "jsonpath={.roleRef.name}")
    assert kubectl("get", *role) == "view"
