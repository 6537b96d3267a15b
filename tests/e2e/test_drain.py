"""``kubectl drain`` moves pods from a node as far as disruption budgets allow."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from controller_manager.api.json_objects import JSON
from tests.controllers.builders import deployment_json
from tests.e2e.clusters import NEEDS_KUBECTL, Kubectl, validation

pytestmark = NEEDS_KUBECTL

_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."


def apply(kubectl: Kubectl, obj: JSON) -> None:
    obj["metadata"].pop("namespace", None)
    kubectl("apply", *validation(), "-f", "-", stdin=yaml.safe_dump(obj))


def set_up(kubectl: Kubectl, **limit: Any) -> str:
    """Create a deployment of four pods and its budget; return a node with pods."""
    apply(kubectl, deployment_json(replicas=4))
    apply(
        kubectl,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "pdb"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, **limit},
        },
    )
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    kubectl("wait", "pdb/pdb", "--for=jsonpath={.status.currentHealthy}=4")
    return str(pods(kubectl)[0]["spec"]["nodeName"])


def pods(kubectl: Kubectl) -> list[JSON]:
    found: list[JSON] = json.loads(kubectl("get", "pods", "-o", "json"))["items"]
    return found


def is_available(pod: JSON) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    is_ready = any((c["type"], c["status"]) == ("Ready", "True") for c in conditions)
    return is_ready and "deletionTimestamp" not in pod["metadata"]


@contextmanager
def drained(kubectl: Kubectl, node: str) -> Iterator[None]:
    """Let pods be scheduled on the node again at the end."""
    try:
        yield
    finally:
        kubectl("uncordon", node)


def drain(kubectl: Kubectl, node: str, *flags: str, ok: bool = True) -> str:
    """Drain the pods of this test's deployment from a node."""
    return kubectl("drain", node, "--pod-selector=app=web", *flags, ok=ok)


def test_a_node_is_drained_within_the_budget(kubectl: Kubectl) -> None:
    node = set_up(kubectl, maxUnavailable=1)
    least = [4]
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            least.append(sum(map(is_available, pods(kubectl))))
            time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with drained(kubectl, node):
            output = drain(kubectl, node, "--timeout=50s")
            assert f"node/{node} drained" in output
            assert [p for p in pods(kubectl) if p["spec"].get("nodeName") == node] == []
    finally:
        done.set()
        watcher.join()
    assert min(least) >= 3


def test_a_drain_waits_for_a_budget_that_allows_nothing(kubectl: Kubectl) -> None:
    """Until a user changes the budget."""
    node = set_up(kubectl, minAvailable="100%")
    before = sorted(each["metadata"]["name"] for each in pods(kubectl))
    with drained(kubectl, node):
        output = drain(kubectl, node, "--timeout=3s", ok=False)
        assert _VIOLATES in output
        assert sorted(each["metadata"]["name"] for each in pods(kubectl)) == before
        spec = {"spec": {"minAvailable": "50%"}}
        kubectl("patch", "pdb", "pdb", "--type=merge", f"--patch={json.dumps(spec)}")
        assert f"node/{node} drained" in drain(kubectl, node, "--timeout=50s")
