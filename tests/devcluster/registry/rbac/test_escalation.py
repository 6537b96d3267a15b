"""Users cannot grant rights that they do not have."""

from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import TOKEN, Cluster
from tests.devcluster.registry.rbac.requests import (
    ROLES,
    allow,
    ask,
    log_in,
    rule,
    user,
)
from tests.devcluster.rows import rows

pytestmark = pytest.mark.looptime

GROUP = "rbac.authorization.k8s.io"
LOCAL = f"{ROLES}/namespaces/default"
EVERYTHING = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
JANE = 'user "jane" (groups=["devs" "system:authenticated"])'
GRANTS = f"{JANE} is attempting to grant RBAC permissions not currently held:"


def cluster_with_jane(*rules: JSON) -> Cluster:
    """Return a cluster in which jane may write roles and read pods."""
    cluster = Cluster(rbac=True)
    log_in(cluster, "jane", "devs")
    may_write = rule(
        "create update patch get",
        "roles rolebindings clusterroles clusterrolebindings",
        GROUP,
    )
    allow(
        cluster,
        "jane",
        may_write,
        rule("get list", "pods"),
        *rules,
        subject=user("jane"),
    )
    return cluster


def role(name: str, *rules: JSON, **parts: Any) -> JSON:
    return {"metadata": {"name": name}, "rules": list(rules), **parts}


def binding(name: str, kind: str, role_name: str) -> JSON:
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role_name},
        "subjects": [user("bob")],
    }


SELECTING = {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}


@rows("path", "body", "expected")
async def test_a_user_grants_only_its_own_rights(
    path: str, body: JSON, expected: int | str
) -> None:
    status, answer = await ask(cluster_with_jane(), "jane", "POST", path, body)
    if isinstance(expected, int):
        assert status == expected, answer
    else:
        assert answer["message"] == expected
        assert status == (404 if expected.endswith("not found") else 403)


@pytest.mark.parametrize(
    ("path", "body", "granted"),
    [
        (f"{LOCAL}/roles", role("r", EVERYTHING), rule("escalate", "roles", GROUP)),
        (
            f"{ROLES}/clusterroles",
            role("r", EVERYTHING, aggregationRule=SELECTING),
            rule("escalate", "clusterroles", GROUP),
        ),
        (
            f"{ROLES}/clusterrolebindings",
            binding("b", "ClusterRole", "cluster-admin"),
            rule("bind", "clusterroles", GROUP, resourceNames=["cluster-admin"]),
        ),
    ],
)
async def test_escalate_and_bind_allow_more(
    path: str, body: JSON, granted: JSON
) -> None:
    answer = await ask(cluster_with_jane(granted), "jane", "POST", path, body)
    assert answer[0] == 201, answer


async def test_an_update_is_checked_too() -> None:
    """A patch and an apply that creates as well; the garbage collector is let be."""
    cluster = cluster_with_jane(rule("delete", "pods", resourceNames=["x"]))
    await ask(cluster, TOKEN, "POST", f"{LOCAL}/roles", role("r", rule("*", "secrets")))
    apply = {"content_type": "application/apply-patch+yaml"}
    merge = {"content_type": "application/merge-patch+json"}
    more = role("r", rule("get", "pods"), rule("get", "nodes"))
    for path, body, headers in (
        (f"{LOCAL}/roles/r", {"metadata": {"labels": {"a": "b"}}}, merge),
        (f"{LOCAL}/roles/r", more, merge),
        (
            f"{LOCAL}/roles/s?fieldManager=m",
            {"apiVersion": f"{GROUP}/v1", "kind": "Role", **role("s", EVERYTHING)},
            apply,
        ),
    ):
        status, answer = await ask(cluster, "jane", "PATCH", path, body, **headers)
        assert (status, GRANTS in answer["message"]) == (403, True), answer
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1"}
    collected = {"metadata": {"ownerReferences": [owner], "finalizers": ["a/b"]}}
    for body in (collected, role("r", rule("get", "pods"))):
        status, answer = await ask(
            cluster, "jane", "PATCH", f"{LOCAL}/roles/r", body, **merge
        )
        assert status == 200, answer


async def test_a_binding_keeps_its_role() -> None:
    cluster = Cluster(rbac=True)
    bindings = f"{LOCAL}/rolebindings"
    await ask(cluster, TOKEN, "POST", bindings, binding("b", "ClusterRole", "view"))
    changed = binding("b", "ClusterRole", "edit")
    status, answer = await ask(cluster, TOKEN, "PUT", f"{bindings}/b", changed)
    value = f'{{"APIGroup":"{GROUP}","Kind":"ClusterRole","Name":"edit"}}'
    assert (status, answer["message"]) == (
        422,
        (
            f'RoleBinding.{GROUP} "b" is invalid: roleRef: Invalid value: {value}: '
            "cannot change roleRef"
        ),
    )


async def test_without_rbac_every_user_may_grant_everything(cluster: Cluster) -> None:
    log_in(cluster, "jane")
    path = f"{ROLES}/clusterrolebindings"
    body = binding("b", "ClusterRole", "cluster-admin")
    assert (await ask(cluster, "jane", "POST", path, body))[0] == 201
