"""The changes of a pod with scheduling gates that a real API server accepts."""

import asyncio
import json
from typing import Any

import pytest

from tests.clusters import Cluster
from tests.devcluster.kubelet.objects import PODS, create_pod, send, status_of
from tests.devcluster.requests import call

pytestmark = pytest.mark.looptime

GATES = [{"name": "example.com/one"}, {"name": "example.com/two"}]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TERMS = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    """Return a node affinity with required terms."""
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def term(*keys: str) -> dict[str, Any]:
    """Return a term with requirements for labels."""
    return {"matchExpressions": [{"key": each, "operator": "Exists"} for each in keys]}


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


async def test_gates_are_never_added(cluster: Cluster) -> None:
    """Neither to a gated pod nor to another."""
    await create_pod(cluster, "p", schedulingGates=GATES[:1])
    name = "example.com/two"
    why = f"only deletion is allowed, but found new scheduling gate '{name}'"
    found = await refusal(cluster, schedulingGates=GATES)
    assert found == f"spec.schedulingGates[1].name: Forbidden: {why}"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"nodeSelector": {"a": "b", "c": "d"}}, ""),
        (
            {"nodeSelector": {"a": "z"}},
            'spec.nodeSelector: Invalid value: {"a":"z"}: only additions',
        ),
        ({"affinity": affinity(term("a", "b"))}, ""),
        (
            {"affinity": affinity(term("b"))},
            TERMS + '[0]: Invalid value: {"MatchExpressions":[{"Key":"b","Operator":'
            '"Exists","Values":null}],"MatchFields":null}: only additions are allowed',
        ),
        (
            {"affinity": affinity(term("a"), term("b"))},
            "no additions/deletions to non-empty NodeSelectorTerms list are allowed",
        ),
        ({"hostNetwork": True}, "spec: Forbidden: pod updates may not change fields"),
    ],
)
async def test_a_gated_pod_may_be_limited_to_fewer_nodes(
    cluster: Cluster, change: dict[str, Any], expected: str
) -> None:
    """Its node selector and its node affinity only get longer."""
    await create_pod(
        cluster,
        "p",
        schedulingGates=GATES,
        nodeSelector={"a": "b"},
        affinity=affinity(term("a")),
    )
    found = await refusal(cluster, **change)
    assert bool(found) is bool(expected)
    assert expected in found


async def test_a_pod_without_gates_keeps_its_node_selector(cluster: Cluster) -> None:
    """It may have been scheduled by it."""
    await create_pod(cluster, "p")
    assert "Forbidden" in await refusal(cluster, nodeSelector={"a": "b"})
