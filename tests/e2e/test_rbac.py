"""kubectl shows the rights of users, and grants no more than its user has."""

import re

import pytest

from tests.e2e.clusters import KUBECTL, Kubectl

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="no kubectl on PATH"),
]

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


def test_a_user_grants_no_more_than_it_has(kubectl: Kubectl) -> None:
    """An administrator of a namespace is no administrator of the cluster."""
    kubectl("create", "rolebinding", "jane", "--clusterrole=admin", "--user=jane")
    jane = "--as=jane"
    kubectl("create", "role", "r", "--verb=get,list", "--resource=pods", jane)
    everything = ("create", "role", "s", "--verb=*", "--resource=pods")
    refused = kubectl(*everything, jane, ok=False)
    assert refused == (
        'Error from server (Forbidden): roles.rbac.authorization.k8s.io "s" is '
        'forbidden: user "jane" (groups=["system:authenticated"]) is attempting to '
        "grant RBAC permissions not currently held:\n"
        '{APIGroups:[""], Resources:["pods"], Verbs:["*"]}\n'
    )
    bind = ("create", "rolebinding", "b", "--user=bob", jane)
    assert "permissions not currently held" in kubectl(
        *bind, "--clusterrole=cluster-admin", ok=False
    )
    kubectl(*bind, "--clusterrole=view")
    change = '{"roleRef":{"name":"edit"}}'
    assert "cannot change roleRef" in kubectl(
        "patch", "rolebinding", "b", "-p", change, jane, ok=False
    )


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


def test_a_service_account_acts_with_its_token(kubectl: Kubectl) -> None:
    """Its extra names the token."""
    kubectl("create", "serviceaccount", "bot")
    token = kubectl("create", "token", "bot").strip()
    shown = rows(kubectl(f"--token={token}", "auth", "whoami"))
    assert [line.partition("  ")[0] for line in shown] == [
        "ATTRIBUTE",
        "Username",
        "UID",
        "Groups",
        "Extra: authentication.kubernetes.io/credential-id",
    ]
    assert "[JTI=" in shown[-1]
    answer = kubectl(f"--token={token}", "get", "pods", ok=False)
    assert 'bot" cannot list resource "pods" in API group ""' in answer
