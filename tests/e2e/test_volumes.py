"""kubectl shows volumes and claims that are bound, attached, expanded and protected."""

import json
import time
from typing import Final

import pytest

from tests.e2e.clusters import KUBECTL, Kubectl, gone
from tests.e2e.shown import create, described, table

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="no kubectl on PATH"),
]

CLAIM: Final = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
}
DB: Final = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "db"},
    "spec": {
        "serviceName": "db",
        "replicas": 2,
        "selector": {"matchLabels": {"app": "db"}},
        "template": {
            "metadata": {"labels": {"app": "db"}},
            "spec": {"containers": [{"name": "c", "image": "db"}]},
        },
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": CLAIM}],
    },
}


def read(kubectl: Kubectl, name: str, path: str) -> str:
    return kubectl("get", name, "-o", f"jsonpath={{{path}}}")


def wait_until(kubectl: Kubectl, name: str, path: str, wanted: str) -> None:
    deadline = time.monotonic() + 20
    while (found := read(kubectl, name, path)) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def test_a_stateful_set_comes_up_expands_and_goes(kubectl: Kubectl) -> None:
    create(kubectl, DB)
    kubectl("rollout", "status", "statefulset/db", "--timeout=30s")
    namespace = read(kubectl, "statefulset/db", ".metadata.namespace")
    volume = read(kubectl, "pvc/data-db-0", ".spec.volumeName")
    node = read(kubectl, "pod/db-0", ".spec.nodeName")
    _, row, _ = table(kubectl, "pvc", "-o", "wide")
    assert row == (
        "data-db-0  Bound  pvc-UID  1Gi  RWO  standard  <unset>  AGE  Filesystem"
    )
    _, row = table(kubectl, "pv", volume, "-o", "wide")
    assert row == (
        f"pvc-UID  1Gi  RWO  Delete  Bound  {namespace}/data-db-0  standard  <unset>  "
        "AGE  Filesystem"
    )
    attachments = json.loads(kubectl("get", "volumeattachments", "-o", "json"))
    (name,) = (
        each["metadata"]["name"]
        for each in attachments["items"]
        if each["spec"]["source"]["persistentVolumeName"] == volume
    )
    _, row = table(kubectl, "volumeattachment", name, "-o", "wide")
    assert row == f"{name}  devcluster  pvc-UID  {node}  true  AGE"
    description = described(kubectl, "volumeattachment", name)
    assert "Status:" in description
    assert "  Attached:  true" in description

    grow = json.dumps({"spec": {"resources": {"requests": {"storage": "2Gi"}}}})
    kubectl("patch", "pvc", "data-db-0", "-p", grow)
    wait_until(kubectl, "pvc/data-db-0", ".status.capacity.storage", "2Gi")
    assert read(kubectl, f"pv/{volume}", ".spec.capacity.storage") == "2Gi"
    description = described(kubectl, "pvc", "data-db-0")
    assert "Used By:  db-0" in description
    assert "Capacity:  2Gi" in description
    about = "--field-selector=involvedObject.name=data-db-0"
    reasons = kubectl("get", "events", about, "-o", "jsonpath={.items[*].reason}")
    assert set(reasons.split()) >= {
        "ExternalExpanding",
        "ExternalProvisioning",
        "ProvisioningSucceeded",
        "Resizing",
        "FileSystemResizeRequired",
    }

    kubectl("delete", "pvc", "data-db-0", "--wait=false")
    assert "Status:  Terminating (lasts " in "\n".join(
        described(kubectl, "pvc", "data-db-0")
    )
    _, row, _ = table(kubectl, "pvc")
    assert row.split("  ")[1] == "Terminating"
    kubectl("delete", "pv", volume, "--wait=false")
    description = described(kubectl, "pv", volume)
    assert any(line.startswith("Status:  Terminating") for line in description)
    kubectl("scale", "statefulset/db", "--replicas=0")
    kubectl("wait", "pvc/data-db-0", "--for=delete", "--timeout=20s")
    kubectl("wait", f"pv/{volume}", "--for=delete", "--timeout=20s")
    kubectl("delete", "statefulset/db")
    kubectl("delete", "pvc", "data-db-1")
    gone(kubectl, "pvc")


def test_the_driver_of_the_cluster_is_shown(kubectl: Kubectl) -> None:
    assert table(kubectl, "csidrivers", "-o", "wide") == [
        (
            "NAME  ATTACHREQUIRED  PODINFOONMOUNT  STORAGECAPACITY  TOKENREQUESTS  "
            "REQUIRESREPUBLISH  MODES  AGE"
        ),
        "devcluster  true  false  false  <unset>  false  Persistent  AGE",
    ]
    assert table(kubectl, "csinodes", "--no-headers") == [
        f"node-{number}  1  AGE" for number in range(3)
    ]
    description = described(kubectl, "csinode", "node-0")
    assert "  devcluster:" in description
