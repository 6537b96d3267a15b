"""kubectl creates quotas, and shows their usage and their refusals."""

import json

import pytest

from controller_manager.api.json_objects import JSON
from tests.e2e.clusters import KUBECTL, Kubectl
from tests.e2e.shown import described, table

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="no kubectl on PATH"),
]


def counted(kubectl: Kubectl, *names: str) -> None:
    """Wait until the status of quotas shows a usage."""
    resources = [f"quota/{name}" for name in names]
    kubectl("wait", "--for=jsonpath={.status.used}", *resources, "--timeout=20s")


def run(
    kubectl: Kubectl, name: str, resources: JSON | None = None, *, ok: bool = True
) -> str:
    resources = resources or {}
    container = {"name": "c", "image": "app:v1", "resources": resources}
    overrides = json.dumps({"spec": {"containers": [container]}})
    return kubectl("run", name, "--image=app:v1", f"--overrides={overrides}", ok=ok)


def test_quotas_are_created_and_shown(kubectl: Kubectl) -> None:
    hard = "pods=3,requests.cpu=1,limits.memory=1Gi,count/deployments.apps=2"
    kubectl("create", "quota", "compute", f"--hard={hard}")
    kubectl("create", "quota", "bare", "--hard=pods=5", "--scopes=BestEffort")
    counted(kubectl, "compute", "bare")
    half = {"requests": {"cpu": 0.5}, "limits": {"memory": "0.5Gi"}}
    run(kubectl, "one", half)
    requests = ("count/deployments.apps: 0/2", "pods: 1/3", "requests.cpu: 500m/1")
    assert table(kubectl, "quota") == [
        "NAME  REQUEST  LIMIT  AGE",
        "bare  pods: 0/5  AGE",
        f"compute  {', '.join(requests)}  limits.memory: 512Mi/1Gi  AGE",
    ]
    assert described(kubectl, "quota", "compute") == [
        "Name:  compute",
        "Resource  Used  Hard",
        "--------  ----  ----",
        "count/deployments.apps  0  2",
        "limits.memory  512Mi  1Gi",
        "pods  1  3",
        "requests.cpu  500m  1",
    ]
    (scopes,) = (
        line for line in described(kubectl, "quota", "bare") if "Scopes" in line
    )
    assert scopes == "Scopes:  BestEffort"


def test_a_quota_refuses_pods_that_exceed_it(kubectl: Kubectl) -> None:
    kubectl("create", "quota", "q", "--hard=requests.cpu=1")
    counted(kubectl, "q")
    large = {"requests": {"cpu": "600m"}}
    run(kubectl, "one", large)
    refused = run(kubectl, "two", large, ok=False)
    assert (
        'pods "two" is forbidden: exceeded quota: q, requested: requests.cpu=600m, '
        "used: requests.cpu=600m, limited: requests.cpu=1"
    ) in refused
    refused = run(kubectl, "three", ok=False)
    assert "failed quota: q: must specify requests.cpu for: c" in refused
    kubectl("delete", "pod", "one", "--grace-period=0", "--force")
    kubectl("wait", r"--for=jsonpath={.status.used.requests\.cpu}=0", "quota/q")
    run(kubectl, "two", large)


def test_an_invalid_quota_is_refused(kubectl: Kubectl) -> None:
    output = kubectl("create", "quota", "q", "--hard=monkeys=1", ok=False)
    assert 'spec.hard[monkeys]: Invalid value: "monkeys": must be a standard' in output
    arguments = ("--hard=cpu=1", "--scopes=BestEffort")
    output = kubectl("create", "quota", "q", *arguments, ok=False)
    assert "unsupported scope applied to resource" in output
