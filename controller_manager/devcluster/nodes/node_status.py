"""The node object that a kubelet registers, and the status that it reports."""

import uuid
from typing import Any, Final

from controller_manager.version import KUBERNETES_VERSION

JSON = dict[str, Any]

_RESOURCES: Final = {"cpu": "8", "memory": "32Gi", "pods": "1000"}
_ARCHITECTURE: Final = "amd64"
_SYSTEM: Final = "linux"


def new_node(name: str) -> JSON:
    """Return a node with the labels that kubelets give to their nodes."""
    labels = {
        "beta.kubernetes.io/arch": _ARCHITECTURE,
        "beta.kubernetes.io/os": _SYSTEM,
        "kubernetes.io/arch": _ARCHITECTURE,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": _SYSTEM,
    }
    return {"metadata": {"name": name, "labels": labels}}


def node_status(name: str, now: str) -> JSON:
    """Return the status of a ready node."""
    return {
        "capacity": dict(_RESOURCES),
        "allocatable": dict(_RESOURCES),
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "KubeletReady",
                "message": "the development cluster's kubelet is ready",
                "lastHeartbeatTime": now,
                "lastTransitionTime": now,
            }
        ],
        "nodeInfo": _node_info(name),
    }


def _node_info(name: str) -> JSON:
    """Return the nodeInfo that the kubelet of a node reports."""
    machine = uuid.uuid5(uuid.NAMESPACE_DNS, name)
    return {
        "machineID": machine.hex,
        "systemUUID": str(machine),
        "bootID": str(uuid.uuid5(machine, "boot")),
        "kernelVersion": "6.12.0",
        "osImage": "Debian GNU/Linux 13 (trixie)",
        "containerRuntimeVersion": "containerd://2.1.4",
        "kubeletVersion": KUBERNETES_VERSION,
        # Since 1.33 kubelets leave this field empty.
        "kubeProxyVersion": "",
        "operatingSystem": _SYSTEM,
        "architecture": _ARCHITECTURE,
    }
