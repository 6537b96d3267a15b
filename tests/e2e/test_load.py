"""kubectl shows the load of pods, and autoscalers follow it."""

import json
import re
import time

import pytest

from tests.e2e.clusters import KUBECTL, Kubectl, gone
from tests.e2e.shown import table

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="no kubectl on PATH"),
]


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


def test_top_shows_the_answers_of_a_config_map(kubectl: Kubectl) -> None:
    """Other pods have no metrics, and wrong answers give an error."""
    deploy(kubectl, 1)
    answers = json.dumps({"resource": {"*": {"nginx": {"cpu": "7m", "memory": "1Gi"}}}})
    name = "devcluster-metrics"
    kubectl("create", "configmap", name, f"--from-literal=answers={answers}")
    assert top(kubectl, "pods")[1:] == ["web-*  7m  1024Mi"]
    patch = json.dumps({"data": {"answers": "{"}})
    kubectl("patch", "configmap", name, "--type=merge", "-p", patch)
    assert "key answers: Input data was truncated" in kubectl("top", "pods", ok=False)


def test_an_exposed_deployment_has_endpoints(kubectl: Kubectl) -> None:
    deploy(kubectl, 2)
    kubectl("expose", "deployment", "web", "--port=80", "--target-port=8080")
    path = "jsonpath={.endpoints[*].conditions.ready}"
    selector = "--selector=kubernetes.io/service-name=web"
    kubectl("wait", "endpoints/web", "--for=jsonpath={.subsets}", "--timeout=20s")
    slices = kubectl("get", "endpointslices", selector, "-o", "name").split()
    assert len(slices) == 1
    assert kubectl("get", slices[0], "-o", path) == "true true"
    (line,) = [
        each
        for each in kubectl("describe", "svc", "web").splitlines()
        if "Endp" in each
    ]
    assert len(re.findall(r"10\.244\.\d+\.\d+:8080", line)) == 2
    hard = "--hard=pods=3,services=2,requests.cpu=1"
    kubectl("create", "quota", "q", hard)
    counted = ("wait", "quota/q", "--for=jsonpath={.status.used.pods}=2")
    kubectl(*counted, "--timeout=20s")
    shown = "pods: 2/3, requests.cpu: 0/1, services: 1/2"
    assert f"q  {shown}" in table(kubectl, "quota")[1]
    refused = kubectl("run", "x", "--image=nginx", ok=False)
    why = "failed quota: q: must specify requests.cpu for: x"
    assert refused.endswith(f'pods "x" is forbidden: {why}\n')
    kubectl("delete", "svc", "web")
    gone(kubectl, "endpointslices")
    missing = kubectl("get", "endpoints", "web", ok=False)
    assert 'endpoints "web" not found' in missing


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
