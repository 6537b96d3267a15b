"""Pods are collected on a cluster in memory, on virtual time."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from controller_manager.api.core.v1 import PODS, Node, Pod
from controller_manager.api.json_objects import JSON
from controller_manager.client.rest.transport import Request, Response
from controller_manager.controllers.nodes.podgc import PodGCOptions
from controller_manager.controllers.nodes.podgc.controller import (
    may_be_collected,
    missing_nodes,
    terminated_above_threshold,
    terminating_out_of_service,
    unscheduled_terminating,
)
from controller_manager.devcluster.inmemory import StreamingResponse
from controller_manager.options.config import Config
from tests.clusters import make_config
from tests.controllers.hands import Hands
from tests.controllers.scenarios import Scenario, scenarios

pytestmark = pytest.mark.looptime


def config(**options: int) -> Config:
    made = make_config(controllers=("podgc",))
    return replace(made, controllers={PodGCOptions: PodGCOptions(**options)})


class Pods(Hands):
    def pod(
        self,
        name: str,
        node: str = "",
        phase: str = "Running",
        metadata: JSON | None = None,
    ) -> None:
        containers = [{"name": "c", "image": "app:v1"}]
        spec = {"containers": containers, **({"nodeName": node} if node else {})}
        self.put(
            PODS, name, metadata=metadata or {}, spec=spec, status={"phase": phase}
        )


@scenarios("nodes/podgc")
async def test_pods_are_collected(scenario: Scenario) -> None:
    await scenario.play(Pods, config)


async def test_a_pod_that_is_bound_while_the_api_server_is_asked_stays() -> None:
    cluster = Pods()
    cluster.pod("orphan", "again")
    handle = cluster.server.handle

    async def slow(request: Request) -> Response | StreamingResponse:
        answer = await handle(request)
        if request.path == "/api/v1/nodes/again" and request.method == "GET":
            cluster.server.handle = handle  # type: ignore[method-assign]
            cluster.add("Node", "again")
            cluster.pod("new", "again")
            await asyncio.sleep(5)
        return answer

    cluster.server.handle = slow  # type: ignore[method-assign]
    async with cluster.manager(config()):
        await asyncio.sleep(100)
        assert cluster.names(PODS) == ["new"]


SINCE = "2026-01-01T00:00:00Z"


def pod(name: str = "p", **parts: Any) -> Pod:
    """Return a pod; `parts` are of its metadata, spec and status."""
    metadata = {"name": name, "namespace": "default", **parts.get("metadata", {})}
    body = {"metadata": metadata, **{k: parts.get(k, {}) for k in ("spec", "status")}}
    return msgspec.convert(body, Pod)


def ended(name: str, created: str, reason: str = "", phase: str = "Failed") -> Pod:
    return pod(
        name,
        metadata={"creationTimestamp": created},
        status={"phase": phase, "reason": reason},
    )


def node(name: str, *, ready: bool, taint: str = "") -> Node:
    status = {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}
    spec = {"taints": [{"key": taint}]} if taint else {}
    body = {"metadata": {"name": name}, "spec": spec, "status": status}
    return msgspec.convert(body, Node)


def test_evicted_pods_go_first_then_the_oldest() -> None:
    pods = [
        ended("old", "2026-01-01T00:00:00Z", phase="Succeeded"),
        ended("older", "2025-01-01T00:00:00Z"),
        ended("evicted", "2026-02-01T00:00:00Z", "Evicted"),
        ended("young", "2026-03-01T00:00:00Z"),
        pod("running", status={"phase": "Running"}),
    ]
    names = {
        threshold: [
            each.metadata.name for each in terminated_above_threshold(pods, threshold)
        ]
        for threshold in (0, 1, 3, 4, 100)
    }
    assert names == {
        0: [],
        1: ["evicted", "older", "old"],
        3: ["evicted"],
        4: [],
        100: [],
    }


def test_only_pods_of_nodes_that_are_out_of_service_are_deleted_by_force() -> None:
    """The node must be not ready and tainted."""
    taint = "node.kubernetes.io/out-of-service"
    nodes = {
        "gone": node("gone", ready=False, taint=taint),
        "back": node("back", ready=True, taint=taint),
        "weak": node("weak", ready=False),
    }
    pods = [
        pod(name, metadata={"deletionTimestamp": SINCE}, spec={"nodeName": name})
        for name in (*nodes, "unknown")
    ] + [pod("alive", spec={"nodeName": "gone"})]
    found = [each.metadata.name for each in terminating_out_of_service(pods, nodes)]
    assert found == ["gone"]


def test_a_terminating_pod_without_a_node_is_deleted_by_force() -> None:
    pods = [
        pod("lost", metadata={"deletionTimestamp": SINCE}),
        pod("held", metadata={"deletionTimestamp": SINCE}, spec={"nodeName": "n"}),
        pod("pending"),
    ]
    assert [each.metadata.name for each in unscheduled_terminating(pods)] == ["lost"]
    assert missing_nodes(pods, {}) == {"n"}
    assert missing_nodes(pods, {"n": node("n", ready=True)}) == set()


def test_every_pod_that_may_be_chosen_may_be_collected() -> None:
    nodes = {"n": node("n", ready=True)}
    pods = {
        "running": pod(spec={"nodeName": "n"}, status={"phase": "Running"}),
        "pending": pod(status={"phase": "Pending"}),
        "ended": pod(spec={"nodeName": "n"}, status={"phase": "Succeeded"}),
        "going": pod(
            metadata={"deletionTimestamp": SINCE},
            spec={"nodeName": "n"},
            status={"phase": "Running"},
        ),
        "lost": pod(spec={"nodeName": "x"}, status={"phase": "Running"}),
    }
    found = [name for name, each in pods.items() if may_be_collected(each, nodes)]
    assert found == ["ended", "going", "lost"]
