"""What is special about kinds of the group batch."""

import msgspec
import pytest

from tests.clusters import Cluster
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
