"""Jobs whose pods fail by their commands, as in upstream's e2e."""

import json
from typing import Any

from tests.e2e.clusters import NEEDS_KUBECTL, Kubectl, validation

pytestmark = NEEDS_KUBECTL

ODD = """
    if [ $(expr ${JOB_COMPLETION_INDEX} % 2) -ne 0 ]; then
        exit 1
    else
        exit 0
    fi
"""
ONCE = """
    if [[ -r /data/foo ]]
    then
        exit 0
    else
        touch /data/foo
        exit 1
    fi
"""
ON_CODE = {"onExitCodes": {"operator": "In", "values": [1]}}


def job(name: str, script: str, policy: str = "Never", **spec: Any) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "registry.k8s.io/e2e-test-images/busybox:1.37",
        "command": ["/bin/sh", "-c"],
        "args": [script],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    pod = {
        "restartPolicy": policy,
        "containers": [container],
        "volumes": [{"name": "data", "emptyDir": {}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": {"spec": pod}, **spec},
    }


def indexed(**spec: Any) -> dict[str, Any]:
    """Return the spec of an Indexed job with an allowance for each index."""
    common = {"completionMode": "Indexed", "backoffLimitPerIndex": 1}
    return {"completions": 2, "parallelism": 2, **common, **spec}


JOBS = (
    job(
        "exit-code",
        "exit 1",
        podFailurePolicy={"rules": [{"action": "FailJob", **ON_CODE}]},
    ),
    job(
        "fail-index",
        ODD,
        **indexed(podFailurePolicy={"rules": [{"action": "FailIndex", **ON_CODE}]}),
    ),
    job("per-index", ODD, **indexed(backoffLimitPerIndex=0)),
    job("too-many", ODD, **indexed(backoffLimitPerIndex=0, maxFailedIndexes=0)),
    job("once", ONCE, "OnFailure", completions=2, parallelism=2),
)


def test_jobs_fail_as_their_pods(kubectl: Kubectl) -> None:
    """By exit code, by index, and not at all if a file says that one try is over."""
    items = {"apiVersion": "v1", "kind": "List", "items": JOBS}
    kubectl("create", *validation(), "-f", "-", stdin=json.dumps(items))
    failed = ("exit-code", "fail-index", "per-index", "too-many")
    for name in failed:
        kubectl("wait", "--for=condition=failed", f"job/{name}", "--timeout=40s")
    kubectl("wait", "--for=condition=complete", "job/once", "--timeout=40s")
    found = {
        each["metadata"]["name"]: each["status"]
        for each in json.loads(kubectl("get", "jobs", "-o", "json"))["items"]
    }
    assert {
        name: (
            status.get("succeeded", 0),
            status.get("failed", 0),
            status.get("failedIndexes"),
            next(
                each["reason"]
                for each in status["conditions"]
                if each["type"] in ("Failed", "Complete")
            ),
        )
        for name, status in found.items()
    } == {
        "exit-code": (0, 1, None, "PodFailurePolicy"),
        "fail-index": (1, 1, "1", "FailedIndexes"),
        "per-index": (1, 1, "1", "FailedIndexes"),
        "too-many": (1, 1, "1", "MaxFailedIndexesExceeded"),
        "once": (2, 0, None, "CompletionsReached"),
    }
