"""Pods: priority, quality of service, gates, grace periods, labels of their nodes."""

import asyncio
import json
from typing import Any, Final

import pytest

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.registry.core.pod_updates import qos_class
from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import PODS, create_pod, send, status_of
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime


FULL: Final[JSON] = {"cpu": "1", "memory": "1Gi"}
SAME: Final[JSON] = {"cpu": "1000m", "memory": "1073741824"}


def both(requests: JSON, limits: JSON) -> JSON:
    return {"requests": requests, "limits": limits}


def spec(*resources: JSON, init: JSON | None = None, whole: JSON | None = None) -> JSON:
    """Return the spec of a pod whose containers have these resources."""
    made: JSON = {
        "containers": [{"name": "c", "resources": each} for each in resources]
    }
    if init is not None:
        made["initContainers"] = [{"name": "i", "resources": init}]
    if whole is not None:
        made["resources"] = whole
    return made


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (spec({}), "BestEffort"),
        (spec({"requests": {"cpu": "0"}, "limits": {"memory": "0"}}), "BestEffort"),
        (spec({"requests": {"ephemeral-storage": "1Gi"}}), "BestEffort"),
        (spec({"requests": {"example.com/gpu": "1"}}), "BestEffort"),
        (spec({"requests": {"cpu": "1"}}), "Burstable"),
        (spec({"limits": {"memory": "1Gi"}}), "Burstable"),
        (spec(both(FULL, FULL)), "Guaranteed"),
        (spec(both(FULL, SAME)), "Guaranteed"),
        (spec(both({**FULL, "ephemeral-storage": "1Gi"}, FULL)), "Guaranteed"),
        (spec(both({"cpu": "1"}, {"cpu": "1"})), "Burstable"),
        (spec(both(FULL, FULL), {}), "Burstable"),
        (spec(both(FULL, FULL), init={}), "Burstable"),
        (spec(both(FULL, FULL), init=both(FULL, FULL)), "Guaranteed"),
        (spec({}, whole=both(FULL, SAME)), "Guaranteed"),
        (spec(both(FULL, FULL), whole={"requests": {"cpu": "1"}}), "Burstable"),
        (spec(both(FULL, FULL), whole={}), "BestEffort"),
    ],
)
def test_the_class_is_that_of_the_amounts(pod: JSON, expected: str) -> None:
    """Only cpu and memory count; what the pod states as a whole decides alone."""
    assert qos_class(pod) == expected


GATES = [{"name": "example.com/one"}, {"name": "example.com/two"}]


async def refusal(cluster: Cluster, **spec: Any) -> str:
    """Change the spec of the pod p; return the reason of the refusal, "" for none."""
    body = json.dumps({"spec": spec}).encode()
    form = "application/merge-patch+json"
    answer = await call(cluster, "PATCH", f"{PODS}/p", body, content_type=form)
    if answer.status == 200:
        return ""
    message: str = json.loads(answer.body)["message"]
    return message.removeprefix('Pod "p" is invalid: ')


async def test_a_pod_is_scheduled_once_its_gates_are_removed(cluster: Cluster) -> None:
    """One after the other; upstream's e2e patches them away."""
    async with cluster.nodes(count=1, start_delay=0):
        await create_pod(cluster, "p", schedulingGates=GATES)
        assert await refusal(cluster, schedulingGates=GATES[1:]) == ""
        (gated,) = (await status_of(cluster, "p"))["conditions"]
        assert gated["reason"] == "SchedulingGated"
        pod = await send(cluster, "GET", f"{PODS}/p")
        assert "nodeName" not in pod["spec"]
        assert await refusal(cluster, schedulingGates=None) == ""
        pod = await send(cluster, "GET", f"{PODS}/p")
        while pod["status"]["phase"] != "Running":
            await asyncio.sleep(1)
            pod = await send(cluster, "GET", f"{PODS}/p")
    assert pod["metadata"]["generation"] == 3
