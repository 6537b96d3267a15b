"""Reviews tell what users may do."""

import pytest

from controller_manager.api.json_objects import JSON
from tests.clusters import TOKEN, Cluster
from tests.devcluster.registry.rbac.requests import allow, ask, log_in, rule, user

pytestmark = pytest.mark.looptime

REVIEWS = "/apis/authorization.k8s.io/v1"
LOCAL = f"{REVIEWS}/namespaces/default/localsubjectaccessreviews"
GET_PODS = {"verb": "get", "resource": "pods", "namespace": "default"}


def cluster_with_jane() -> Cluster:
    """Return a cluster in which jane may read pods of the namespace default."""
    cluster = Cluster(rbac=True)
    log_in(cluster, "jane")
    reads = rule("get list", "pods")
    allow(cluster, "reader", reads, subject=user("jane"), namespace="default")
    return cluster


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"user": "jane", "resourceAttributes": GET_PODS},
            {
                "allowed": True,
                "reason": (
                    'RBAC: allowed by RoleBinding "reader/default" of Role "reader" to '
                    'User "jane"'
                ),
            },
        ),
        (
            {"user": "jane", "resourceAttributes": {**GET_PODS, "namespace": "x"}},
            {"allowed": False},
        ),
        (
            {"user": "x", "groups": ["system:masters"], "resourceAttributes": GET_PODS},
            {"allowed": True},
        ),
        (
            {
                "groups": ["system:authenticated"],
                "nonResourceAttributes": {"path": "/version", "verb": "get"},
            },
            {
                "allowed": True,
                "reason": (
                    'RBAC: allowed by ClusterRoleBinding "system:discovery" of '
                    'ClusterRole "system:discovery" to Group "system:authenticated"'
                ),
            },
        ),
        (
            {"user": "lost", "resourceAttributes": GET_PODS},
            {
                "allowed": False,
                "reason": (
                    'RBAC: clusterrole.rbac.authorization.k8s.io "not-there" not found'
                ),
            },
        ),
        (
            {
                "user": "jane",
                "resourceAttributes": {
                    **GET_PODS,
                    "verb": "delete",
                    "fieldSelector": {
                        "requirements": [
                            {"key": "spec.nodeName", "operator": "In", "values": ["n"]},
                            {"key": "spec.nodeName", "operator": "Like"},
                        ]
                    },
                    "labelSelector": {"rawSelector": "a in (b"},
                },
            },
            {
                "allowed": False,
                "evaluationError": (
                    "spec.resourceAttributes.fieldSelector partially ignored due to "
                    "parse error; spec.resourceAttributes.labelSelector ignored due to "
                    "parse error"
                ),
            },
        ),
    ],
)
async def test_a_review_tells_the_rights_of_a_user(spec: JSON, expected: JSON) -> None:
    """And the binding that allows it, or the error of a binding."""
    cluster = cluster_with_jane()
    binding = {
        "metadata": {"name": "lost"},
        "roleRef": {"kind": "ClusterRole", "name": "not-there"},
        "subjects": [user("lost")],
    }
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    await ask(cluster, TOKEN, "POST", roles, binding)
    path = f"{REVIEWS}/subjectaccessreviews"
    status, answer = await ask(cluster, TOKEN, "POST", path, {"spec": spec})
    assert status == 201, answer
    assert answer["status"] == expected
    assert answer["spec"] == spec


@pytest.mark.parametrize(
    ("plural", "body", "expected"),
    [
        (
            "selfsubjectaccessreviews",
            {"spec": {}},
            (
                'SelfSubjectAccessReview.authorization.k8s.io "" is invalid: '
                'spec.resourceAttributes: Invalid value: "null": exactly one of '
                "nonResourceAttributes or resourceAttributes must be specified"
            ),
        ),
        (
            "subjectaccessreviews",
            {
                "metadata": {"name": "a"},
                "spec": {
                    "resourceAttributes": {"labelSelector": {}},
                    "nonResourceAttributes": {"path": "/a", "verb": "get"},
                },
            },
            (
                'SubjectAccessReview.authorization.k8s.io "" is invalid: '
                '[spec.nonResourceAttributes: Invalid value: {"Path":"/a",'
                '"Verb":"get"}: cannot be specified in combination with '
                'resourceAttributes, spec.user: Invalid value: "": at least one of '
                "user or group must be specified, "
                "spec.resourceAttributes.labelSelector.requirements: Required value: "
                "when spec.resourceAttributes.labelSelector is specified, requirements "
                'or rawSelector is required, metadata: Invalid value: {"name":"a"}: '
                "must be empty]"
            ),
        ),
        (
            "namespaces/default/localsubjectaccessreviews",
            {
                "spec": {
                    "user": "a",
                    "resourceAttributes": {**GET_PODS, "namespace": "other"},
                }
            },
            (
                'LocalSubjectAccessReview.authorization.k8s.io "" is invalid: '
                'spec.resourceAttributes.namespace: Invalid value: "other": must match '
                "metadata.namespace"
            ),
        ),
        ("selfsubjectrulesreviews", {"spec": {}}, "no namespace on request"),
    ],
)
async def test_a_wrong_review_is_refused(
    cluster: Cluster, plural: str, body: JSON, expected: str
) -> None:
    """With the messages of a real API server."""
    _, answer = await ask(cluster, TOKEN, "POST", f"{REVIEWS}/{plural}", body)
    assert answer["message"] == expected


async def test_an_administrator_of_a_namespace_asks_about_its_users() -> None:
    """A local review is for one namespace, and needs a permission there only."""
    cluster = cluster_with_jane()
    log_in(cluster, "bob")
    group = "authorization.k8s.io"
    may_ask = rule("create", "localsubjectaccessreviews", group)
    allow(cluster, "bob", may_ask, subject=user("bob"), namespace="default")
    spec = {"user": "jane", "resourceAttributes": GET_PODS}
    status, answer = await ask(cluster, "bob", "POST", LOCAL, {"spec": spec})
    assert (status, answer["status"]["allowed"]) == (201, True)
    everywhere = f"{REVIEWS}/subjectaccessreviews"
    assert (await ask(cluster, "bob", "POST", everywhere, {"spec": spec}))[0] == 403


async def test_a_user_is_told_all_rules() -> None:
    """Those of the namespace, and those that count everywhere."""
    cluster = cluster_with_jane()
    path = f"{REVIEWS}/selfsubjectrulesreviews"
    body = {"spec": {"namespace": "default"}}
    status, answer = await ask(cluster, "jane", "POST", path, body)
    found = answer.pop("status")
    assert (status, answer) == (
        201,
        {
            "kind": "SelfSubjectRulesReview",
            "apiVersion": "authorization.k8s.io/v1",
            "metadata": {},
            "spec": {},
        },
    )
    assert found["resourceRules"] == [
        {
            "verbs": ["create"],
            "apiGroups": ["authorization.k8s.io"],
            "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        },
        {
            "verbs": ["create"],
            "apiGroups": ["authentication.k8s.io"],
            "resources": ["selfsubjectreviews"],
        },
        {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]},
    ]
    public = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
    assert {"verbs": ["get"], "nonResourceURLs": public} in found["nonResourceRules"]
    assert found["incomplete"] is False


async def test_without_rbac_reviews_say_so(cluster: Cluster) -> None:
    """Every user may do everything, except anonymous users."""
    cluster.server.know_everybody()
    log_in(cluster, "jane")
    spec = {"resourceAttributes": GET_PODS}
    path = f"{REVIEWS}/selfsubjectaccessreviews"
    _, answer = await ask(cluster, "jane", "POST", path, {"spec": spec})
    assert answer["status"] == {"allowed": True}
    path = f"{REVIEWS}/subjectaccessreviews"
    for name, allowed in (("whoever", True), ("system:anonymous", False)):
        body = {"spec": {**spec, "user": name}}
        _, answer = await ask(cluster, "jane", "POST", path, body)
        assert answer["status"] == {"allowed": allowed}
    path = f"{REVIEWS}/selfsubjectrulesreviews"
    body = {"spec": {"namespace": "default"}}
    _, answer = await ask(cluster, "jane", "POST", path, body)
    assert answer["status"] == {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    }
