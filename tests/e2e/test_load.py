"""kubectl shows the load of pods, and autoscalers follow it."""

import re
import time

from tests.e2e.clusters import NEEDS_KUBECTL, Kubectl, gone
from tests.e2e.shown import table

pytestmark = NEEDS_KUBECTL


def deploy(kubectl: Kubectl, replicas: int) -> None:
    kubectl("create", "deployment", "web", "--image=nginx", f"--replicas={replicas}")
    kubectl("rollout", "status", "deployment/web", "--timeout=20s")


def top(kubectl: Kubectl, *arguments: str) -> list[str]:
    """Return the lines of ``kubectl top``; a pod's name ends in *."""
    output = kubectl("top", *arguments)
    lines = (re.sub(r" {2,}", "  ", line).rstrip() for line in output.splitlines())
    return [re.sub(r"^(web-)\w+-\w+", r"\1*", line) for line in lines]


def test_top_shows_the_load_of_annotations(kubectl: Kubectl) -> None:
    deploy(kubectl, 2)
    head = "NAME  CPU(cores)  MEMORY(bytes)"
    assert top(kubectl, "pods") == [head, *["web-*  1m  8Mi"] * 2]
    load = ("devcluster/cpu=total:300m", "devcluster/memory=64Mi")
    kubectl("annotate", "deployment", "web", *load)
    assert top(kubectl, "pods") == [head, *["web-*  150m  64Mi"] * 2]
    containers = top(kubectl, "pods", "--containers")
    assert containers[1:] == ["web-*  nginx  150m  64Mi"] * 2
    lines = top(kubectl, "nodes")
    assert lines[0] == "NAME  CPU(cores)  CPU(%)  MEMORY(bytes)  MEMORY(%)"
    assert [line.partition(" ")[0] for line in lines[1:]] == [
        "node-0",
        "node-1",
        "node-2",
    ]


def test_an_autoscaler_follows_the_load(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx")
    kubectl("set", "resources", "deployment", "web", "--requests=cpu=100m")
    kubectl("rollout", "status", "deployment/web", "--timeout=20s")
    limits = ("--min=1", "--max=3", "--cpu-percent=50")
    kubectl("autoscale", "deployment", "web", *limits)
    kubectl("annotate", "deployment", "web", "devcluster/cpu=total:1")
    wait = ("wait", "deployment/web", "--for=jsonpath={.status.readyReplicas}=3")
    kubectl(*wait, "--timeout=50s")
    deadline = time.monotonic() + 30
    row = "web  Deployment/web  cpu: 333%/50%  1  3  3  AGE"
    while (shown := table(kubectl, "hpa"))[1] != row:
        assert time.monotonic() < deadline, shown
        time.sleep(0.5)
    kubectl("delete", "hpa", "web")
    kubectl("delete", "deployment", "web")
    gone(kubectl, "pods")
