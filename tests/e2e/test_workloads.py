"""kubectl drives stateful sets, daemon sets and jobs on the whole cluster."""

import json
import re
import shutil
import time
from datetime import UTC, datetime, timedelta

import pytest
import yaml

from tests.e2e.clusters import Kubectl, gone, names, validation, version

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on PATH"),
]

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

INDEXED = """
apiVersion: batch/v1
kind: Job
metadata: {name: parts}
spec:
  completionMode: Indexed
  completions: 4
  parallelism: 2
  backoffLimitPerIndex: 0
  template:
    metadata:
      annotations: {devcluster/failing-indexes: "2"}
    spec:
      restartPolicy: Never
      containers:
        - {name: c, image: busybox}
"""


def apply(kubectl: Kubectl, manifest: str) -> None:
    kubectl("apply", *validation(), "-f", "-", stdin=manifest)


def rolled_out(kubectl: Kubectl, workload: str) -> str:
    """Wait until a workload is rolled out; return the output of kubectl."""
    return kubectl("rollout", "status", workload, "--timeout=30s").splitlines()[-1]


def read(kubectl: Kubectl, thing: str, path: str) -> str:
    return kubectl("get", *thing.split("/"), "-o", f"jsonpath={{{path}}}")


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


def test_a_stateful_set_has_pods_and_claims_of_its_own(kubectl: Kubectl) -> None:
    apply(kubectl, DB)
    rolled_out(kubectl, "statefulset/db")
    header, row = kubectl("get", "statefulsets").splitlines()
    assert (header.split(), row.split()[:2]) == (
        ["NAME", "READY", "AGE"],
        ["db", "3/3"],
    )
    assert names(kubectl, "pods") == ["pod/db-0", "pod/db-1", "pod/db-2"]
    header, *rows = kubectl("get", "pvc").splitlines()
    assert [row.split()[:2] for row in rows] == [
        [f"data-db-{number}", "Bound"] for number in range(3)
    ]
    assert [row.split()[3:6] for row in rows] == 3 * [["1Gi", "RWO", "standard"]]
    namespace = read(kubectl, "statefulset/db", ".metadata.namespace")
    volume = read(kubectl, "pvc/data-db-0", ".spec.volumeName")
    _, row = kubectl("get", "pv", volume).splitlines()
    assert row.split()[:7] == [
        *(volume, "1Gi", "RWO", "Delete", "Bound"),
        *(f"{namespace}/data-db-0", "standard"),
    ]
    kubectl("scale", "statefulset/db", "--replicas=1")
    kubectl("wait", "--for=delete", "pod/db-1", "pod/db-2", "--timeout=20s")
    assert len(names(kubectl, "pvc")) == 3
    kubectl("scale", "statefulset/db", "--replicas=2")
    rolled_out(kubectl, "statefulset/db")
    kubectl("delete", "statefulset", "db")
    gone(kubectl, "pods")
    kubectl("delete", "pvc", "--all")
    gone(kubectl, "pvc")
    deadline = time.monotonic() + 20
    while f"{namespace}/data-db" in kubectl("get", "pv"):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_the_storage_classes_are_listed(kubectl: Kubectl) -> None:
    header, immediate, standard = kubectl("get", "storageclass").splitlines()
    assert header.split() == [
        *("NAME", "PROVISIONER", "RECLAIMPOLICY", "VOLUMEBINDINGMODE"),
        *("ALLOWVOLUMEEXPANSION", "AGE"),
    ]
    assert immediate.split()[:5] == [
        *("immediate", "devcluster", "Delete", "Immediate", "true")
    ]
    assert standard.split()[:6] == [
        *("standard", "(default)", "devcluster"),
        *("Delete", "WaitForFirstConsumer", "true"),
    ]
    described = kubectl("describe", "storageclass", "standard")
    assert re.search(r"IsDefaultClass: +Yes", described)


def test_a_daemon_set_follows_the_nodes(kubectl: Kubectl) -> None:
    """A node that it selects gets a pod, and loses it with the label."""
    manifest = yaml.safe_load(AGENT)
    manifest["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
    apply(kubectl, yaml.safe_dump(manifest))
    rolled_out(kubectl, "daemonset/agent")
    assert names(kubectl, "pods") == []
    kubectl("label", "node", "node-1", "disk=ssd")
    kubectl("rollout", "status", "daemonset/agent", "--timeout=20s")
    deadline = time.monotonic() + 20
    while read(kubectl, "daemonset/agent", ".status.numberReady") != "1":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    header, row = kubectl("get", "daemonsets").splitlines()
    assert header.split() == [
        *("NAME", "DESIRED", "CURRENT", "READY", "UP-TO-DATE", "AVAILABLE"),
        *("NODE", "SELECTOR", "AGE"),
    ]
    assert row.split()[:7] == ["agent", *5 * ["1"], "disk=ssd"]
    assert (
        kubectl("get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}") == "node-1"
    )
    kubectl("label", "node", "node-1", "disk-")
    gone(kubectl, "pods")


def test_a_job_whose_pods_fail_is_seen_to_fail(kubectl: Kubectl) -> None:
    """Its indexes fail one by one, as an annotation says."""
    apply(kubectl, INDEXED)
    kubectl("wait", "--for=condition=failed", "job/parts", "--timeout=30s")
    status = json.loads(kubectl("get", "job", "parts", "-o", "json"))["status"]
    assert (status["completedIndexes"], status["failedIndexes"]) == ("0,1,3", "2")
    assert "FailedIndexes" in kubectl("describe", "job", "parts")
    row = kubectl("get", "jobs").splitlines()[1]
    assert row.split()[:3] == ["parts", "Failed", "3/4"]
    kubectl("delete", "job", "parts", "--cascade=foreground")
    assert names(kubectl, "jobs,pods") == []


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


def test_a_pod_without_a_node_says_why(kubectl: Kubectl) -> None:
    """Kubectl describe shows the event of the scheduler."""
    if version() < (1, 27):
        pytest.skip("an older kubectl needs --validate=false")
    overrides = json.dumps({"spec": {"nodeSelector": {"disk": "tape"}}})
    kubectl("run", "p", "--image=i", f"--overrides={overrides}")
    deadline = time.monotonic() + 20
    while "FailedScheduling" not in (output := kubectl("describe", "pod", "p")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert re.search(
        r"Warning +FailedScheduling .* default-scheduler +0/3 nodes are available: 3 "
        r"node\(s\) didn't match Pod's node affinity/selector\.",
        output,
    )
