"""The status that kubelets report of pods and nodes, when a scenario replaces them."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import format_time


def running(
    now: datetime, conditions: Sequence[str], ago: float = 0, ip: str = ""
) -> JSON:
    """Return the status of a pod that has been ready for `ago` seconds, with its IP."""
    stamp = format_time(now - timedelta(seconds=ago))
    addresses = {"podIP": ip, "podIPs": [{"ip": ip}]} if ip else {}
    return {
        "phase": "Running",
        "startTime": stamp,
        "conditions": [
            {"type": each, "status": "True", "lastTransitionTime": stamp}
            for each in conditions
        ],
        **addresses,
    }


def ended(pod: JSON, step: JSON, now: datetime) -> JSON:
    """Return the status of a pod whose containers have ended, as a step describes.

    `phase` is Succeeded by default; the step may also give the exit code and reason of
    the first container, and `ago`: how many seconds ago it ended.
    """
    phase = step.get("phase", "Succeeded")
    well = phase == "Succeeded"
    at = now - timedelta(seconds=step.get("ago", 0))
    terminated = {
        "exitCode": step.get("exitCode", 0 if well else 1),
        "reason": step.get("reason", "Completed" if well else "Error"),
        "startedAt": format_time(at - timedelta(seconds=1)),
        "finishedAt": format_time(at),
    }
    conditions = [
        {
            "type": each,
            "status": "False",
            "reason": "PodCompleted" if well else "PodFailed",
            "lastTransitionTime": format_time(at),
        }
        for each in ("Ready", "ContainersReady")
    ]
    return {
        "phase": phase,
        "conditions": conditions + step.get("conditions", []),
        "containerStatuses": [
            {
                "name": each["name"],
                "image": each["image"],
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": {"terminated": terminated},
            }
            for each in pod["spec"]["containers"]
        ],
    }


def lease(node: str, now: datetime) -> JSON:
    """Return the lease of a node whose kubelet has just renewed it."""
    return {
        "metadata": {"name": node, "namespace": "kube-node-lease"},
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": 40,
            "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        },
    }
