"""Jobs from a manifest end as the commands of their pods."""

import json
import shutil

import pytest

from tests.e2e.clusters import Kubectl, validation

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on PATH"),
]

JOB = """
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
  backoffLimit: 1
  template:
    spec:
      restartPolicy: {policy}
      terminationGracePeriodSeconds: 1
      containers:
        - {container}
---
"""

JOBS = "".join(
    JOB.format(name=name, policy=policy, container=json.dumps(container))
    for name, policy, container in (
        ("shell", "Never", {"name": "c", "image": "busybox:1"}),
        (
            "good",
            "OnFailure",
            {
                "name": "c",
                "image": "busybox:1",
                "command": ["/bin/sh", "-c"],
                "args": ["sleep 1s && exit 0"],
            },
        ),
        (
            "bad",
            "Never",
            {"name": "c", "image": "alpine", "args": ["sh", "-ec", "false; sleep 9"]},
        ),
        ("pause", "Never", {"name": "c", "image": "registry.k8s.io/pause:3.10"}),
        (
            "loop",
            "Never",
            {
                "name": "c",
                "image": "busybox:1",
                "command": ["sh", "-c", "while true; do sleep 1; done"],
            },
        ),
    )
)


def test_jobs_end_as_their_commands(kubectl: Kubectl) -> None:
    kubectl("apply", *validation(), "-f", "-", stdin=JOBS)
    kubectl("wait", "--for=condition=complete", "job/shell", "--timeout=30s")
    kubectl("wait", "--for=condition=complete", "job/good", "--timeout=30s")
    kubectl("wait", "--for=condition=failed", "job/bad", "--timeout=60s")
    items = json.loads(kubectl("get", "jobs", "-o", "json"))["items"]
    counts = {
        each["metadata"]["name"]: {
            field: each["status"].get(field, 0)
            for field in ("active", "succeeded", "failed")
        }
        for each in items
    }
    active = {"active": 1, "succeeded": 0, "failed": 0}
    succeeded = {"active": 0, "succeeded": 1, "failed": 0}
    assert counts == {
        "shell": succeeded,
        "good": succeeded,
        "bad": {"active": 0, "succeeded": 0, "failed": 2},
        "pause": active,
        "loop": active,
    }
    path = "{.items[*].status.containerStatuses[0].state.terminated.exitCode}"
    label = "batch.kubernetes.io/job-name=bad"
    codes = kubectl("get", "pods", "-l", label, "-o", f"jsonpath={path}")
    assert codes.split() == ["1", "1"]
