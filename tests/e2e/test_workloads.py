"""kubectl drives stateful sets, daemon sets and jobs on the whole cluster."""

import json
import re
import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.clusters import NEEDS_KUBECTL, Kubectl, gone, names, validation, version

pytestmark = NEEDS_KUBECTL

DB = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 3
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers:
        - {name: c, image: "db:v1"}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec:
        accessModes: [ReadWriteOnce]
        resources: {requests: {storage: 1Gi}}
"""

AGENT = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      containers:
        - {name: c, image: "agent:v1"}
"""


def apply(kubectl: Kubectl, manifest: str) -> None:
    kubectl("apply", *validation(), "-f", "-", stdin=manifest)


def rolled_out(kubectl: Kubectl, workload: str) -> str:
    """Wait until a workload is rolled out; return the output of kubectl."""
    return kubectl("rollout", "status", workload, "--timeout=30s").splitlines()[-1]


def images(kubectl: Kubectl, label: str) -> list[str]:
    path = "jsonpath={.items[*].spec.containers[0].image}"
    return kubectl("get", "pods", "-l", label, "-o", path).split()


def revisions(kubectl: Kubectl, workload: str) -> list[str]:
    history = kubectl("rollout", "history", workload)
    return re.findall(r"^\d+", history, re.MULTILINE)


@pytest.mark.parametrize(
    ("manifest", "workload", "label", "ended"),
    [
        (DB, "statefulset/db", "app=db", "partitioned roll out complete: 3 new pods"),
        (AGENT, "daemonset/agent", "app=agent", 'daemon set "agent" successfully'),
    ],
)
def test_a_rollout_is_followed_restarted_and_undone(
    kubectl: Kubectl, manifest: str, workload: str, label: str, ended: str
) -> None:
    """Of stateful sets and of daemon sets; all pods have the image of the end."""
    name = workload.partition("/")[2]
    apply(kubectl, manifest)
    rolled_out(kubectl, workload)
    kubectl("set", "image", workload, f"c={name}:v2")
    assert rolled_out(kubectl, workload).startswith(ended)
    assert images(kubectl, label) == [f"{name}:v2"] * 3
    assert revisions(kubectl, workload) == ["1", "2"]
    kubectl("rollout", "undo", workload)
    assert rolled_out(kubectl, workload).startswith(ended)
    assert images(kubectl, label) == [f"{name}:v1"] * 3
    assert revisions(kubectl, workload) == ["2", "3"]
    kubectl("rollout", "undo", workload, "--to-revision=2")
    rolled_out(kubectl, workload)
    assert images(kubectl, label) == [f"{name}:v2"] * 3
    uids = "{.items[*].metadata.uid}"
    before = set(kubectl("get", "pods", "-o", f"jsonpath={uids}").split())
    kubectl("rollout", "restart", workload)
    assert rolled_out(kubectl, workload).startswith(ended)
    after = set(kubectl("get", "pods", "-o", f"jsonpath={uids}").split())
    assert len(after) == 3
    assert not before & after


def test_a_cron_job_runs_when_asked_to_and_makes_up_for_a_run(
    kubectl: Kubectl,
) -> None:
    if version() < (1, 27):
        pytest.skip("an older kubectl needs --validate=false")
    kubectl("create", "cronjob", "r", "--image=i", "--schedule=0 3 * * *")
    kubectl("create", "job", "now", "--from=cronjob/r")
    kubectl("wait", "--for=condition=complete", "job/now", "--timeout=30s")
    last = datetime.now(UTC) - timedelta(days=1, minutes=1)
    status = {"status": {"lastScheduleTime": last.strftime("%Y-%m-%dT%H:%M:%SZ")}}
    patch = f"--patch={json.dumps(status)}"
    kubectl("patch", "cronjob", "r", "--subresource=status", "--type=merge", patch)
    deadline = time.monotonic() + 20
    while len(jobs := names(kubectl, "jobs")) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    (job,) = set(jobs) - {"job.batch/now"}
    assert re.fullmatch(r"job\.batch/r-\d+", job)
    kubectl("wait", "--for=condition=complete", job, "--timeout=30s")
    kubectl("delete", "cronjob", "r")
    gone(kubectl, "jobs,pods")
