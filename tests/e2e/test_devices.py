"""A rule that taints devices evicts the pods that use them."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from controller_manager.api.json_objects import JSON
from tests.e2e.clusters import KUBECTL, kubectl_in, running_cluster
from tests.e2e.shown import create, set_status, table

pytestmark = [
    pytest.mark.kubectl,
    pytest.mark.slow,
    pytest.mark.skipif(KUBECTL is None, reason="no kubectl on PATH"),
]

GROUP: Final = "resource.k8s.io"
DRIVER: Final = "gpu.example.com"
POOL: Final = {"driver": DRIVER, "pool": "node-0"}


def obj(api: str, kind: str, name: str, **spec: Any) -> JSON:
    metadata = {"name": name}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}


SLICE: Final = obj(
    *(f"{GROUP}/v1", "ResourceSlice", "gpus"),
    driver=DRIVER,
    nodeName="node-0",
    pool={"name": "node-0", "resourceSliceCount": 1},
    devices=[{"name": "gpu-0"}],
)
CLAIM: Final = obj(
    *(f"{GROUP}/v1", "ResourceClaim", "c"),
    devices={"requests": [{"name": "g", "exactly": {"deviceClassName": "gpu"}}]},
)
POD: Final = obj(
    *("v1", "Pod", "p"),
    nodeName="node-0",
    resourceClaims=[{"name": "c", "resourceClaimName": "c"}],
    containers=[{"name": "c", "image": "i", "resources": {"claims": [{"name": "c"}]}}],
)
RULE: Final = obj(
    *(f"{GROUP}/v1beta2", "DeviceTaintRule", "broken"),
    deviceSelector={**POOL, "device": "gpu-0"},
    taint={"key": "broken", "effect": "NoExecute"},
)


def test_pods_leave_a_device_that_is_tainted(tmp_path: Path) -> None:
    flags = ("--pod-start-delay=0", "--grace-scale=0")
    gate = "--feature-gates=DRADeviceTaintRules=true"
    with running_cluster(tmp_path, *flags, gate) as path:
        kubectl = kubectl_in(path, "devices")
        create(kubectl, SLICE, CLAIM, POD)
        kubectl("wait", "pod/p", "--for=condition=Ready", "--timeout=20s")
        uid = kubectl("get", "pod", "p", "-o", "jsonpath={.metadata.uid}")
        result = {**POOL, "request": "g", "device": "gpu-0"}
        set_status(
            kubectl,
            "resourceclaim/c",
            allocation={"devices": {"results": [result]}},
            reservedFor=[{"resource": "pods", "name": "p", "uid": uid}],
        )
        assert table(kubectl, "resourceclaims,resourceslices", "--no-headers") == [
            f"resourceclaim.{GROUP}/c  allocated,reserved  AGE",
            f"resourceslice.{GROUP}/gpus  node-0  {DRIVER}  node-0  AGE",
        ]
        create(kubectl, RULE)
        kubectl("wait", "pod/p", "--for=delete", "--timeout=20s")
        kubectl(
            *("wait", "devicetaintrule/broken", "--timeout=30s"),
            "--for=condition=EvictionInProgress=False",
        )
        rule = json.loads(kubectl("get", "devicetaintrule", "broken", "-o", "json"))
        (condition,) = rule["status"]["conditions"]
        assert condition["reason"] == "Completed"
        assert "DeviceTaintManagerEviction" in kubectl("get", "events")
