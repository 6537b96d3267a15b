"""Reviews tell what users may do."""

from pathlib import Path

import pytest
import yaml

from controller_manager.api.json_objects import JSON
from tests.clusters import TOKEN, Cluster
from tests.devcluster.registry.rbac.requests import allow, ask, log_in, rule, user

pytestmark = pytest.mark.looptime

FILE = Path(__file__).parents[2] / "data" / "devcluster" / "access.yaml"
CASES = yaml.load(FILE.read_text(), yaml.CSafeLoader)
REVIEWS = "/apis/authorization.k8s.io/v1"
GET_PODS = {"verb": "get", "resource": "pods", "namespace": "default"}


def cluster_with_jane() -> Cluster:
    """Return a cluster in which jane may read pods of the namespace default."""
    cluster = Cluster(rbac=True)
    log_in(cluster, "jane")
    reads = rule("get list", "pods")
    allow(cluster, "reader", reads, subject=user("jane"), namespace="default")
    return cluster


@pytest.mark.parametrize("case", CASES["answered"])
async def test_a_review_tells_the_rights_of_a_user(case: JSON) -> None:
    cluster = cluster_with_jane()
    binding = {
        "metadata": {"name": "lost"},
        "roleRef": {"kind": "ClusterRole", "name": "not-there"},
        "subjects": [user("lost")],
    }
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    await ask(cluster, TOKEN, "POST", roles, binding)
    path = f"{REVIEWS}/subjectaccessreviews"
    spec = {"spec": case["spec"]}
    status, answer = await ask(cluster, TOKEN, "POST", path, spec)
    assert status == 201, answer
    assert answer["status"] == case["status"]
    assert answer["spec"] == case["spec"]


@pytest.mark.parametrize("case", CASES["refused"])
async def test_a_wrong_review_is_refused(cluster: Cluster, case: JSON) -> None:
    path = f"{REVIEWS}/{case['path']}"
    _, answer = await ask(cluster, TOKEN, "POST", path, case["review"])
    assert answer["message"] == case["says"]


async def test_without_rbac_reviews_say_so(cluster: Cluster) -> None:
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
