"""kubectl shows the defaults, warnings and refusals of admission."""

import json

import pytest

from controller_manager.api.json_objects import JSON
from tests.e2e.clusters import KUBECTL, Kubectl

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="no kubectl on PATH"),
]

LIMITS: JSON = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "containers"},
    "spec": {
        "limits": [
            {"type": "Container", "default": {"cpu": "500m"}, "max": {"cpu": "1"}}
        ]
    },
}


def test_pods_are_completed_and_refused_as_upstream_does(kubectl: Kubectl) -> None:
    """A limit range, a service account and a level of security decide."""
    kubectl("apply", "-f", "-", stdin=json.dumps(LIMITS))
    lines = kubectl("describe", "limitrange", "containers").splitlines()
    assert lines[-1].split() == ["Container", "cpu", "-", "1", "500m", "500m", "-"]
    kubectl("run", "web", "--image=app:v1")
    pod = json.loads(kubectl("get", "pod", "web", "-o", "json"))
    assert pod["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "500m"},
        "requests": {"cpu": "500m"},
    }
    assert pod["spec"]["volumes"][0]["name"].startswith("kube-api-access-")
    kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=20s")
    big = {"name": "c", "image": "app:v1", "resources": {"limits": {"cpu": "2"}}}
    overrides = json.dumps({"spec": {"containers": [big]}})
    said = kubectl("run", "big", "--image=a", f"--overrides={overrides}", ok=False)
    assert said.strip() == (
        'Error from server (Forbidden): pods "big" is forbidden: maximum cpu usage per '
        "Container is 1, but limit is 2"
    )


def test_a_namespace_enforces_a_level_of_security(kubectl: Kubectl) -> None:
    name = json.loads(kubectl("get", "serviceaccount", "default", "-o", "json"))[
        "metadata"
    ]["namespace"]
    label = "pod-security.kubernetes.io/enforce=baseline"
    kubectl("label", "namespace", name, label)
    said = kubectl("run", "p", "--image=a", "--privileged", ok=False)
    assert 'pods "p" is forbidden: violates PodSecurity "baseline:latest"' in said
