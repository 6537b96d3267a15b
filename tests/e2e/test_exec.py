"""``kubectl exec`` changes the files of simulated pods, and so their readiness."""

import json

import pytest

from tests.e2e.clusters import KUBECTL, Kubectl, validation, version

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="no kubectl on PATH"),
    pytest.mark.skipif(
        KUBECTL is not None and version() < (1, 31), reason="kubectl needs websockets"
    ),
]

SETS = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "ss"},
    "spec": {
        "replicas": 2,
        "serviceName": "test",
        "selector": {"matchLabels": {"app": "ss"}},
        "volumeClaimTemplates": [
            {
                "metadata": {"name": "datadir"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1"}},
                },
            }
        ],
        "template": {
            "metadata": {"labels": {"app": "ss"}},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {
                        "name": "webserver",
                        "image": "registry.k8s.io/e2e-test-images/httpd:2.4.38-4",
                        "volumeMounts": [{"name": "datadir", "mountPath": "/data/"}],
                        "readinessProbe": {
                            "exec": {"command": ["test", "-f", "/data/continue"]},
                            "periodSeconds": 1,
                            "failureThreshold": 1,
                        },
                    }
                ],
            },
        },
    },
}


def test_a_stateful_set_is_resumed_pod_by_pod(kubectl: Kubectl) -> None:
    """A pod that comes again finds the file on its volume."""
    kubectl("apply", *validation(), "-f", "-", stdin=json.dumps(SETS))
    running = "--for=jsonpath={.status.phase}=Running"
    kubectl("wait", "--for=create", "pod/ss-0", "--timeout=30s")
    kubectl("wait", running, "pod/ss-0", "--timeout=30s")
    touch = ("--", "/bin/sh", "-x", "-c", "dd if=/dev/zero of=/data/continue count=1")
    assert "NotFound" in kubectl("get", "pod", "ss-1", ok=False)
    kubectl("exec", "ss-0", *touch)
    kubectl("wait", "--for=create", "pod/ss-1", "--timeout=30s")
    kubectl("wait", running, "pod/ss-1", "--timeout=30s")
    assert "0/1" in kubectl("get", "pod", "ss-1")
    kubectl("delete", "pod", "ss-0")
    kubectl("wait", "--for=create", "pod/ss-0", "--timeout=30s")
    kubectl("wait", "--for=condition=ready", "pod/ss-0", "--timeout=30s")
    failed = kubectl("exec", "ss-0", "--", "sh", "-c", "echo hi; exit 3", ok=False)
    assert failed == "hi\ncommand terminated with exit code 3\n"
