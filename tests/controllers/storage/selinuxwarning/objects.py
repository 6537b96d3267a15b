"""Pods with SELinux labels, and the volumes that they share."""

from typing import Any, Final

from controller_manager.api.json_objects import JSON
from tests.clusters import Cluster, make_config

CONFIG: Final = make_config(
    controllers=("selinux-warning-controller",), use_service_account_credentials=True
)
DRIVER: Final = "disk.example.com"
X: Final = {"level": "s0:c1,c2"}
Y: Final = {"level": "s0:c98,c99"}


def add_driver(cluster: Cluster, name: str = DRIVER, *, mounts: bool = True) -> None:
    spec = {"seLinuxMount": mounts, "attachRequired": False}
    cluster.add("CSIDriver", name, "storage.k8s.io/v1", spec=spec)


def add_claim(
    cluster: Cluster,
    name: str = "data",
    handle: str = "v",
    source: JSON | None = None,
    **metadata: Any,
) -> None:
    """Store a claim and a volume that are bound to each other.

    The volume is one of the driver, unless another `source` is given.
    """
    size = {"storage": "1Gi"}
    modes = ["ReadWriteMany"]
    claim = {
        "accessModes": modes,
        "resources": {"requests": size},
        "volumeName": name,
        "storageClassName": "",
    }
    bound = {"phase": "Bound", "accessModes": modes, "capacity": size}
    metadata = {"name": name, **metadata}
    cluster.add(
        "PersistentVolumeClaim", name, metadata=metadata, spec=claim, status=bound
    )
    kind = cluster.server.catalogue.of("v1", "PersistentVolumeClaim")
    assert kind is not None
    uid = cluster.server.objects.find(kind, "default", name).obj["metadata"]["uid"]
    volume = {
        "accessModes": modes,
        "capacity": size,
        **(source or {"csi": {"driver": DRIVER, "volumeHandle": handle}}),
        "claimRef": {
            "kind": "PersistentVolumeClaim",
            "namespace": "default",
            "name": name,
            "uid": uid,
        },
        "storageClassName": "",
    }
    cluster.add("PersistentVolume", name, spec=volume, status={"phase": "Bound"})


def pod_spec(
    options: JSON | None = None, policy: str = "", claim: str = "data"
) -> JSON:
    """Return the spec of a pod that mounts a claim, with a label and a policy."""
    context: JSON = {} if options is None else {"seLinuxOptions": options}
    if policy:
        context["seLinuxChangePolicy"] = policy
    mounts = [{"name": "data", "mountPath": "/data"}]
    source = {"persistentVolumeClaim": {"claimName": claim}}
    return {
        "securityContext": context,
        "containers": [{"name": "c", "image": "app:v1", "volumeMounts": mounts}],
        "volumes": [{"name": "data", **source}],
    }


def add_pod(cluster: Cluster, name: str, spec: JSON) -> None:
    cluster.add("Pod", name, spec=spec)
