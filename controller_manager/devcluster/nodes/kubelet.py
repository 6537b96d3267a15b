"""The status that a kubelet reports of its node and of the pods on it."""

import uuid
from typing import Any, Final

from controller_manager.version import KUBERNETES_VERSION

JSON = dict[str, Any]

BROKEN: Final = "broken"
"""Images whose name begins with this can never be pulled."""

_RESOURCES: Final = {"cpu": "8", "memory": "32Gi", "pods": "1000"}


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


def pod_status(pod: JSON, now: str) -> JSON:
    """Return the status of a starting pod: Running, or waiting for its image."""
    containers = pod["spec"]["containers"]
    broken = any(_is_broken(each) for each in containers)
    ready = "False" if broken else "True"
    conditions = [
        {"type": type_, "status": status, "lastTransitionTime": now}
        for type_, status in (
            ("Initialized", "True"),
            ("Ready", ready),
            ("ContainersReady", ready),
            ("PodScheduled", "True"),
        )
    ]
    status = {
        **pod.get("status", {}),
        "phase": "Pending" if broken else "Running",
        "conditions": conditions,
        "containerStatuses": [_container_status(each, now) for each in containers],
        "startTime": now,
    }
    if not broken:
        number = int(pod["metadata"]["uid"].replace("-", "")[:8], 16)
        status["podIP"] = f"10.244.{number >> 8 & 255}.{number & 255}"
        status["podIPs"] = [{"ip": status["podIP"]}]
    return status


def needs_start(pod: JSON) -> bool:
    """Tell whether a pod on a node must be started, maybe with a new image."""
    status = pod.get("status", {})
    return status.get("phase") == "Pending" and (
        not status.get("containerStatuses") or _image_changed(pod)
    )


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
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def _image_changed(pod: JSON) -> bool:
    """Tell whether a pod whose image could not be pulled has other images now."""
    statuses = pod["status"]["containerStatuses"]
    images = [each["image"] for each in pod["spec"]["containers"]]
    return images != [each.get("image") for each in statuses]


def _is_broken(container: JSON) -> bool:
    return str(container["image"]).rpartition("/")[2].startswith(BROKEN)


def _container_status(container: JSON, now: str) -> JSON:
    broken = _is_broken(container)
    if broken:
        message = f'Back-off pulling image "{container["image"]}"'
        state: JSON = {"waiting": {"reason": "ImagePullBackOff", "message": message}}
    else:
        state = {"running": {"startedAt": now}}
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": not broken,
        "started": not broken,
        "restartCount": 0,
        "state": state,
    }
