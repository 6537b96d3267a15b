"""Nodes that are cordoned, tainted and stopped, as kubectl sees them."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.clusters import (
    NEEDS_KUBECTL,
    Kubectl,
    kubectl_in,
    running_cluster,
)
from tests.e2e.shown import table

pytestmark = NEEDS_KUBECTL

LIFETIME = 120.0
"""Seconds until a stopped node is Unknown, with time to spare."""


@pytest.fixture
def kubectl(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """Run kubectl against a cluster of the test's own: tests here change nodes."""
    flags = ("--pod-start-delay=100ms", "--grace-scale=0")
    with running_cluster(tmp_path, *flags) as path:
        yield kubectl_in(path, request.node.name)


def run_pods(kubectl: Kubectl, count: int) -> None:
    kubectl("create", "deployment", "web", "--image=nginx", f"--replicas={count}")
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")


def nodes_of_pods(kubectl: Kubectl) -> list[str]:
    """Return the nodes of the pods that are not being deleted."""
    pods = json.loads(kubectl("get", "pods", "-o", "json"))["items"]
    kept = [each for each in pods if "deletionTimestamp" not in each["metadata"]]
    return sorted(each["spec"].get("nodeName", "") for each in kept)


def manifest(kubectl: Kubectl, node: str) -> str:
    return kubectl("get", "node", node, "-o", "yaml")


def until(is_so: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_node_is_described_in_full(kubectl: Kubectl) -> None:
    run_pods(kubectl, 3)
    kubectl("set", "resources", "deployment/web", "--requests=cpu=500m,memory=1Gi")
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    kubectl("taint", "node", "node-0", "disk=slow:PreferNoSchedule")
    until(lambda: "RegisteredNode" in kubectl("describe", "node", "node-0"))
    shown = kubectl("describe", "node", "node-0")
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    for expected in (
        "Taints: disk=slow:PreferNoSchedule",
        "Unschedulable: false",
        "HolderIdentity: node-0",
        "InternalIP: 172.18.0.2",
        "memory: 32Gi",
        "Kubelet Version: v1.36.2",
        "cpu 500m (6%) 0 (0%)",
        "memory 1Gi (3%) 0 (0%)",
    ):
        assert expected in lines
    conditions = {
        line.split()[0]: line.split()[1] for line in lines if "Kubelet" in line
    }
    assert (
        conditions.items()
        >= {
            "MemoryPressure": "False",
            "DiskPressure": "False",
            "PIDPressure": "False",
            "Ready": "True",
        }.items()
    )


def test_a_stopped_node_is_lost_and_comes_back(kubectl: Kubectl) -> None:
    """Its conditions are Unknown, and its pods are evicted; they go once it is back."""
    run_pods(kubectl, 3)
    short = {"key": "node.kubernetes.io/unreachable", "operator": "Exists"}
    patch = [{**short, "effect": "NoExecute", "tolerationSeconds": 1}]
    spec = {"spec": {"template": {"spec": {"tolerations": patch}}}}
    kubectl("patch", "deployment", "web", "-p", json.dumps(spec))
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    kubectl("annotate", "node", "node-0", "devcluster/stopped=true")
    kubectl(
        *("wait", "node/node-0", "--for=condition=Ready=Unknown"),
        *(f"--timeout={LIFETIME}s",),
        timeout=LIFETIME + 10,
    )
    (row,) = table(kubectl, "node", "node-0", "--no-headers")
    assert row.split("  ")[:2] == ["node-0", "NotReady"]
    until(
        lambda: "node.kubernetes.io/unreachable" in kubectl("describe", "no", "node-0")
    )
    until(lambda: "node-0" not in nodes_of_pods(kubectl))
    assert "Terminating" in kubectl("get", "pods")
    kubectl("annotate", "node", "node-0", "devcluster/stopped-")
    kubectl("wait", "node/node-0", "--for=condition=Ready", "--timeout=5s")
    until(lambda: "Terminating" not in kubectl("get", "pods"))
    until(lambda: "unreachable" not in manifest(kubectl, "node-0"))
    assert "NodeReady" in kubectl("describe", "node", "node-0")
