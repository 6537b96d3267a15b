"""The special behaviour of kinds of the group batch."""

import msgspec
import pytest

from tests.clusters import Cluster
from tests.devcluster.registry.requests import create
from tests.devcluster.requests import call


@pytest.mark.looptime
async def test_a_job_selects_its_own_pods(cluster: Cluster) -> None:
    """By labels that the server gives it, and spares dependents by default."""
    container = {"name": "c", "image": "a:v1"}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    path = "/apis/batch/v1/namespaces/default/jobs"
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"template": template},
    }
    job = msgspec.json.decode(
        (await call(cluster, "POST", path, msgspec.json.encode(body))).body
    )
    uid = job["metadata"]["uid"]
    assert job["spec"]["selector"] == {
        "matchLabels": {"batch.kubernetes.io/controller-uid": uid}
    }
    assert job["spec"]["completions"] == 1
    answer = await call(cluster, "DELETE", f"{path}/j")
    deleted = msgspec.json.decode(answer.body)
    assert deleted["metadata"]["finalizers"] == ["orphan"]
    assert answer.headers["warning"] == (
        '299 - "child pods are preserved by default when jobs are deleted; set '
        "propagationPolicy=Background to remove them or set propagationPolicy=Orphan "
        'to suppress this warning"'
    )


@pytest.mark.looptime
@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
async def test_a_delete_with_a_propagation_policy_has_no_warning(
    cluster: Cluster, policy: str
) -> None:
    """Of one job or of all."""
    create(cluster, "Job")
    path = "/apis/batch/v1/namespaces/default/jobs"
    for each in (f"{path}/a", path):
        answer = await call(cluster, "DELETE", f"{each}?propagationPolicy={policy}")
        assert answer.status in (200, 404)
        assert "warning" not in answer.headers


@pytest.mark.looptime
async def test_a_manual_selector_is_left_alone(cluster: Cluster) -> None:
    """The job gets the labels of its template all the same."""
    spec = {
        "manualSelector": True,
        "selector": {"matchLabels": {"app": "a"}},
        "podFailurePolicy": {"rules": []},
    }
    job = create(cluster, "Job", {"spec": spec})
    assert job["spec"]["selector"] == {"matchLabels": {"app": "a"}}
    assert job["spec"]["template"]["metadata"]["labels"] == {"app": "a"}
    assert job["metadata"]["labels"] == {"app": "a"}
    assert job["spec"]["podReplacementPolicy"] == "Failed"
