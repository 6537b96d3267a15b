"""A negative termination grace period counts as one second."""

import json

import pytest

from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import DEFAULT, PODS, create_pod, send
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime


async def test_a_pod_with_a_negative_grace_period_has_one_second(
    cluster: Cluster,
) -> None:
    """When it is created, and when it is changed."""
    await create_pod(cluster, "p", terminationGracePeriodSeconds=-7)
    pod = await send(cluster, "GET", f"{PODS}/p")
    assert pod["spec"]["terminationGracePeriodSeconds"] == 1
    spec = {**pod["spec"], "terminationGracePeriodSeconds": -1}
    updated = await send(cluster, "PUT", f"{PODS}/p", {**pod, "spec": spec})
    assert updated == pod


async def test_another_grace_period_cannot_be_changed(cluster: Cluster) -> None:
    """Neither to a negative one."""
    await create_pod(cluster, "p", terminationGracePeriodSeconds=5)
    patch = json.dumps({"spec": {"terminationGracePeriodSeconds": -1}}).encode()
    form = "application/merge-patch+json"
    answer = await call(cluster, "PATCH", f"{PODS}/p", patch, content_type=form)
    assert answer.status == 422


async def test_a_template_keeps_its_negative_grace_period(cluster: Cluster) -> None:
    """The pods that are made from it have one second."""
    template = {
        "metadata": {"name": "t"},
        "template": {
            "spec": {
                "containers": [{"name": "c", "image": "i"}],
                "terminationGracePeriodSeconds": -1,
            }
        },
    }
    created = await send(cluster, "POST", f"{DEFAULT}/podtemplates", template)
    assert created["template"]["spec"]["terminationGracePeriodSeconds"] == -1
