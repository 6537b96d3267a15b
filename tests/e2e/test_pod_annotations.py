"""kubectl shows the effects of pods' annotations as on a real cluster."""

import shutil

import pytest

from tests.e2e.clusters import Kubectl, validation

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on PATH"),
]

PODS = """
apiVersion: v1
kind: Pod
metadata: {name: web, annotations: {devcluster/logs: "hello\\nworld"}}
spec:
  containers:
    - name: c
      image: "nginx:1.27"
      readinessProbe: {httpGet: {port: 80}}
---
apiVersion: v1
kind: Pod
metadata: {name: crash}
spec:
  containers:
    - {name: c, image: "busybox:1", command: [sh, -c, "echo started; exit 3"]}
---
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec:
  containers:
    - {name: c, image: "busybox:1", resources: {requests: {cpu: "100"}}}
---
apiVersion: v1
kind: Pod
metadata: {name: broken}
spec:
  containers:
    - {name: c, image: broken}
---
apiVersion: v1
kind: Pod
metadata: {name: unset}
spec:
  containers:
    - {name: c, image: "busybox:1", envFrom: [{configMapRef: {name: absent}}]}
"""
NOTHING_RUNS = "the development cluster runs no containers"

REFUSED = [
    (["logs", "unset"], 'container "c" in pod "unset" is waiting to start: '),
    (["exec", "web", "--", "ls"], f"{NOTHING_RUNS}: nothing can be executed"),
    (["attach", "web"], f"{NOTHING_RUNS}: there is nothing to attach to"),
    (["port-forward", "web", "0:80"], f"{NOTHING_RUNS}: no port of pod"),
    (["cp", "web:/etc/hosts", "/dev/null"], f"{NOTHING_RUNS}: nothing can be"),
]


def _events(kubectl: Kubectl, pod: str) -> list[str]:
    described = kubectl("describe", "pod", pod).partition("Events:\n")[2]
    return [each.strip() for each in described.splitlines()[2:]]


def test_kubectl_shows_the_effects_of_annotations(kubectl: Kubectl) -> None:
    kubectl("apply", *validation(), "-f", "-", stdin=PODS)
    kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=20s")
    reason = "{.status.containerStatuses[0].state.waiting.reason}"
    for pod, wanted in (
        ("broken", f"{reason}=ImagePullBackOff"),
        ("crash", f"{reason}=CrashLoopBackOff"),
        ("unset", f"{reason}=CreateContainerConfigError"),
        ("huge", "{.status.conditions[0].reason}=Unschedulable"),
    ):
        kubectl("wait", f"--for=jsonpath={wanted}", f"pod/{pod}", "--timeout=20s")
    table = kubectl("get", "pods", "--no-headers").splitlines()
    assert [each.split()[:3] for each in table] == [
        ["broken", "0/1", "ImagePullBackOff"],
        ["crash", "0/1", "CrashLoopBackOff"],
        ["huge", "0/1", "Pending"],
        ["unset", "0/1", "CreateContainerConfigError"],
        ["web", "1/1", "Running"],
    ]
    (failure,) = [each for each in _events(kubectl, "huge") if "Failed" in each]
    assert failure.endswith(
        "0/3 nodes are available: 3 Insufficient cpu. no new claims to deallocate, "
        "preemption: 0/3 nodes are available: 3 Preemption is not helpful for "
        "scheduling."
    )
    assert "Container started" in "\n".join(_events(kubectl, "web"))
    assert kubectl("logs", "web") == "hello\nworld\n"
    assert kubectl("logs", "web", "--tail=1") == "world\n"
    assert kubectl("logs", "crash", "--previous", "-c", "c") == "started\n"

    for command, message in REFUSED:
        said = kubectl(*command, ok=False)
        assert message in said
