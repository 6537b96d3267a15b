"""A real kubectl shows and drives workloads on a server without controllers.

So each test writes the statuses itself, and compares whole tables.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from controller_manager.api.json_objects import JSON
from tests.controllers.builders import completed_job_status
from tests.e2e.clusters import (
    KUBECTL,
    Kubectl,
    kubectl_in,
    version,
)
from tests.e2e.shown import create, set_status, table

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="no kubectl on PATH"),
]

FLAGS = ("--without-controllers", "--nodes=0")
"""An API server, without nodes and controllers."""

CONTAINERS = [{"name": "c", "image": "app:v1"}, {"name": "side", "image": "side:v1"}]
FINITE = {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}
CLAIM = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
    "storageClassName": "fast",
}


def running(app: str, **pod: Any) -> JSON:
    """Return a selector and the template that it selects."""
    labels = {"app": app}
    return {
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": CONTAINERS, **pod},
        },
    }


def obj(kind: str, api_version: str, name: str, **parts: Any) -> JSON:
    """Return an object; `parts` are its spec and other fields."""
    metadata = {"name": name, **parts.pop("metadata", {})}
    head = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    return {**head, **parts}


DATABASE = obj("StatefulSet", "apps/v1", "db", spec={"replicas": 3, **running("db")})
AGENT = obj(
    "DaemonSet", "apps/v1", "agent", spec=running("agent", nodeSelector={"disk": "ssd"})
)
TICK = obj(
    "CronJob",
    "batch/v1",
    "tick",
    spec={
        "schedule": "*/5 * * * *",
        "timeZone": "Europe/Berlin",
        "jobTemplate": {
            "metadata": {"labels": {"t": "1"}},
            "spec": {"template": FINITE},
        },
    },
)


@pytest.fixture
def kubectl(kubeconfig: Path, request: pytest.FixtureRequest) -> Kubectl:
    """Return a function that runs kubectl in a namespace of its own."""
    if version() < (1, 24):
        pytest.skip("an older kubectl cannot write a status")
    return kubectl_in(kubeconfig, request.node.name)


def test_stateful_sets_and_daemon_sets_are_shown(kubectl: Kubectl) -> None:
    """As on a real cluster, with -o wide as well."""
    create(kubectl, DATABASE, AGENT)
    set_status(kubectl, "sts/db", replicas=3, readyReplicas=2)
    numbers = {
        "desiredNumberScheduled": 5,
        "currentNumberScheduled": 4,
        "numberReady": 3,
        "updatedNumberScheduled": 2,
        "numberAvailable": 1,
    }
    set_status(kubectl, "ds/agent", **numbers)
    assert table(kubectl, "sts") == ["NAME  READY  AGE", "db  2/3  AGE"]
    assert table(kubectl, "sts", "-o", "wide") == [
        "NAME  READY  AGE  CONTAINERS  IMAGES",
        "db  2/3  AGE  c,side  app:v1,side:v1",
    ]
    head = "NAME  DESIRED  CURRENT  READY  UP-TO-DATE  AVAILABLE  NODE SELECTOR  AGE"
    row = "agent  5  4  3  2  1  disk=ssd  AGE"
    assert table(kubectl, "ds") == [head, row]
    assert table(kubectl, "ds", "-o", "wide") == [
        f"{head}  CONTAINERS  IMAGES  SELECTOR",
        f"{row}  c,side  app:v1,side:v1  app=agent",
    ]


def test_jobs_are_shown(kubectl: Kubectl) -> None:
    create(
        kubectl,
        obj("Job", "batch/v1", "done", spec={"completions": 1, "template": FINITE}),
        obj("Job", "batch/v1", "new", spec={"completions": 3, "template": FINITE}),
        obj("Job", "batch/v1", "queue", spec={"parallelism": 4, "template": FINITE}),
        obj("Job", "batch/v1", "held", spec={"suspend": True, "template": FINITE}),
        obj("Job", "batch/v1", "wrong", spec={"template": FINITE}),
    )
    completed = {**completed_job_status(), "completionTime": "2026-01-01T00:07:05Z"}
    set_status(kubectl, "job/done", **completed)
    held = {"type": "Suspended", "status": "True"}
    set_status(kubectl, "job/held", conditions=[held])
    failing = {"type": "FailureTarget", "status": "True"}
    set_status(kubectl, "job/wrong", conditions=[failing])
    head = "NAME  STATUS  COMPLETIONS  DURATION  AGE"
    assert table(kubectl, "jobs") == [
        head,
        "done  Complete  1/1  7m5s  AGE",
        "held  Suspended  0/1  AGE",
        "new  Running  0/3  AGE",
        "queue  Running  0/1 of 4  AGE",
        "wrong  FailureTarget  0/1  AGE",
    ]
    assert table(kubectl, "jobs", "done", "-o", "wide") == [
        f"{head}  CONTAINERS  IMAGES  SELECTOR",
        (
            "done  Complete  1/1  7m5s  AGE  c,side  app:v1,side:v1  "
            "batch.kubernetes.io/controller-uid=UID"
        ),
    ]
    found = kubectl("get", "jobs", "--field-selector=status.successful=1", "-o", "name")
    assert found == "job.batch/done\n"


def test_cron_jobs_are_shown(kubectl: Kubectl) -> None:
    create(kubectl, TICK)
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "tick-1"}
    set_status(kubectl, "cj/tick", active=[job])
    head = "NAME  SCHEDULE  TIMEZONE  SUSPEND  ACTIVE  LAST SCHEDULE  AGE"
    row = "tick  */5 * * * *  Europe/Berlin  False  1  <none>  AGE"
    assert table(kubectl, "cj") == [head, row]
    assert table(kubectl, "cj", "-o", "wide") == [
        f"{head}  CONTAINERS  IMAGES  SELECTOR",
        f"{row}  c,side  app:v1,side:v1  <none>",
    ]


def test_claims_volumes_and_revisions_are_shown(kubectl: Kubectl) -> None:
    volume = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/data"},
        "storageClassName": "fast",
    }
    create(
        kubectl,
        DATABASE,
        obj("PersistentVolumeClaim", "v1", "free", spec=CLAIM),
        obj("PersistentVolumeClaim", "v1", "used", spec=CLAIM),
        obj("PersistentVolume", "v1", "pv-of-e2e", spec=volume),
    )
    patch = json.dumps({"spec": {"volumeName": "pv-of-e2e"}})
    kubectl("patch", "pvc/used", "--type=merge", "-p", patch)
    bound = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    set_status(kubectl, "pvc/used", accessModes=["ReadWriteOnce"], **bound)
    set_status(kubectl, "pv/pv-of-e2e", phase="Available")
    head = (
        "NAME  STATUS  VOLUME  CAPACITY  ACCESS MODES  STORAGECLASS  "
        "VOLUMEATTRIBUTESCLASS  AGE"
    )
    assert table(kubectl, "pvc") == [
        head,
        "free  Pending  fast  <unset>  AGE",
        "used  Bound  pv-of-e2e  1Gi  RWO  fast  <unset>  AGE",
    ]
    assert table(kubectl, "pvc", "used", "-o", "wide") == [
        f"{head}  VOLUMEMODE",
        "used  Bound  pv-of-e2e  1Gi  RWO  fast  <unset>  AGE  Filesystem",
    ]
    assert table(kubectl, "pv") == [
        (
            "NAME  CAPACITY  ACCESS MODES  RECLAIM POLICY  STATUS  CLAIM  "
            "STORAGECLASS  VOLUMEATTRIBUTESCLASS  REASON  AGE"
        ),
        "pv-of-e2e  1Gi  RWO  Retain  Available  fast  <unset>  AGE",
    ]
    create(kubectl, _revision(kubectl, DATABASE, 1))
    assert table(kubectl, "controllerrevisions") == [
        "NAME  CONTROLLER  REVISION  AGE",
        "db-1  statefulset.apps/db  1  AGE",
    ]


def test_everything_can_be_described(kubectl: Kubectl) -> None:
    """With the fields that kubectl computes from spec and status."""
    claims = [{"metadata": {"name": "data"}, "spec": CLAIM}]
    database = {**DATABASE["spec"], "volumeClaimTemplates": claims}
    job = obj("Job", "batch/v1", "done", spec={"completions": 1, "template": FINITE})
    create(kubectl, {**DATABASE, "spec": database}, AGENT, TICK, job)
    create(kubectl, obj("PersistentVolumeClaim", "v1", "free", spec=CLAIM))
    set_status(kubectl, "job/done", **completed_job_status())
    described = {
        resource: re.sub(r" {2,}", " ", kubectl("describe", resource))
        for resource in ("sts/db", "ds/agent", "job/done", "cj/tick", "pvc/free")
    }
    for resource, lines in {
        "sts/db": (
            "Replicas: 3 desired | 0 total",
            "Update Strategy: RollingUpdate\n Partition: 0",
            "Volume Claims:\n Name: data\n StorageClass: fast",
        ),
        "ds/agent": (
            "Node-Selector: disk=ssd",
            "Annotations: deprecated.daemonset.template.generation: 1",
            "Desired Number of Nodes Scheduled: 0",
        ),
        "job/done": (
            (
                "Parallelism: 1\nCompletions: 1\nCompletion Mode: NonIndexed\n"
                "Suspend: false\nBackoff Limit: 6"
            ),
            "Pods Statuses: 0 Active / 1 Succeeded / 0 Failed",
        ),
        "cj/tick": (
            "Schedule: */5 * * * *\n",
            "Concurrency Policy: Allow\nSuspend: False\n",
            "Successful Job History Limit: 3\nFailed Job History Limit: 1\n",
            "Last Schedule Time: <unset>\nActive Jobs: <none>",
        ),
        "pvc/free": ("StorageClass: fast\nStatus: Pending", "VolumeMode: Filesystem"),
    }.items():
        for line in lines:
            assert line in described[resource]


def test_a_job_is_made_from_a_cron_job_and_waited_for(kubectl: Kubectl) -> None:
    """It belongs to the cron job, as one that was made by hand."""
    create(kubectl, TICK)
    output = kubectl("create", "job", "now", "--from=cronjob/tick")
    assert output == "job.batch/now created\n"
    job = json.loads(kubectl("get", "job", "now", "-o", "json"))
    annotations = {"cronjob.kubernetes.io/instantiate": "manual"}
    assert job["metadata"]["annotations"] == annotations
    assert job["metadata"]["labels"] == {"t": "1"}
    owner, *_ = job["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("CronJob", "tick")
    kubectl("wait", "--for=condition=complete", "job/now", "--timeout=1s", ok=False)
    set_status(kubectl, "job/now", **completed_job_status())
    output = kubectl("wait", "--for=condition=complete", "job/now", "--timeout=5s")
    assert output == "job.batch/now condition met\n"


def test_a_job_has_all_fields_of_its_cron_jobs_template(kubectl: Kubectl) -> None:
    """Kubectl sends it as protobuf."""
    pod = {
        "restartPolicy": "Never",
        "serviceAccountName": "runner",
        "securityContext": {"runAsUser": 7, "supplementalGroups": [1, 2]},
        "tolerations": [
            {
                "key": "k",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 5,
            }
        ],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "k", "operator": "Exists"}]}
                    ]
                }
            }
        },
        "volumes": [
            {"name": "claim", "persistentVolumeClaim": {"claimName": "c"}},
            {
                "name": "map",
                "configMap": {"name": "m", "items": [{"key": "k", "path": "p"}]},
            },
            {"name": "empty", "emptyDir": {"sizeLimit": "1Gi"}},
        ],
        "containers": [
            {
                "name": "c",
                "image": "app:v1",
                "command": ["run", "it"],
                "env": [
                    {"name": "A", "value": "1"},
                    {
                        "name": "B",
                        "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}},
                    },
                    {
                        "name": "C",
                        "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}},
                    },
                ],
                "envFrom": [{"configMapRef": {"name": "m", "optional": True}}],
                "ports": [{"containerPort": 80}],
                "readinessProbe": {"httpGet": {"port": 80, "path": "/ready"}},
                "resources": {"requests": {"cpu": "100m"}},
                "volumeMounts": [{"name": "claim", "mountPath": "/data"}],
            }
        ],
    }
    rule = {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3, 4]}}
    spec = {
        "completionMode": "Indexed",
        "completions": 3,
        "parallelism": 2,
        "backoffLimitPerIndex": 1,
        "maxFailedIndexes": 2,
        "podFailurePolicy": {"rules": [rule]},
        "successPolicy": {"rules": [{"succeededIndexes": "0-1", "succeededCount": 1}]},
        "template": {"spec": pod},
    }
    cron_job = {**TICK["spec"], "jobTemplate": {"spec": spec}}
    create(kubectl, {**TICK, "spec": cron_job})
    stored = json.loads(kubectl("get", "cj", "tick", "-o", "json"))
    kubectl("create", "job", "now", "--from=cronjob/tick")
    made = json.loads(kubectl("get", "job", "now", "-o", "json"))["spec"]
    wanted = stored["spec"]["jobTemplate"]["spec"]
    assert made["template"]["spec"] == wanted["template"]["spec"]
    assert {name: made[name] for name in spec if name != "template"} == {
        name: wanted[name] for name in spec if name != "template"
    }


def test_a_wrong_job_status_is_refused(kubectl: Kubectl) -> None:
    create(kubectl, obj("Job", "batch/v1", "j", spec={"template": FINITE}))
    patch = json.dumps({"status": {"ready": 1}})
    output = kubectl(
        *("patch", "job/j", "--subresource=status", "--type=merge", "-p", patch),
        ok=False,
    )
    assert output == (
        'The Job "j" is invalid: status.ready: Invalid value: 1: cannot set more ready '
        "pods than active\n"
    )


def test_a_stateful_set_is_scaled(kubectl: Kubectl) -> None:
    """Through its subresource, and only from the size that it must have."""
    create(kubectl, DATABASE)
    output = kubectl("scale", "sts/db", "--replicas=5", "--current-replicas=3")
    assert output == "statefulset.apps/db scaled\n"
    kubectl("scale", "sts/db", "--replicas=7", "--current-replicas=3", ok=False)
    replicas = "jsonpath={.spec.replicas} {.metadata.generation}"
    assert kubectl("get", "sts/db", "-o", replicas) == "5 2"
    scale = kubectl("get", "sts/db", "--subresource=scale", "-o", "json")
    assert json.loads(scale)["status"] == {"replicas": 0, "selector": "app=db"}


def _revision(kubectl: Kubectl, workload: JSON, number: int) -> JSON:
    kind, name = workload["kind"], workload["metadata"]["name"]
    path, template = "jsonpath={.metadata.uid}", workload["spec"]["template"]
    owner = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "name": name,
        "uid": kubectl("get", f"{kind}/{name}", "-o", path),
        "controller": True,
    }
    return obj(
        "ControllerRevision",
        "apps/v1",
        f"{name}-{number}",
        metadata={"labels": {"app": name}, "ownerReferences": [owner]},
        data={"spec": {"template": {**template, "$patch": "replace"}}},
        revision=number,
    )
