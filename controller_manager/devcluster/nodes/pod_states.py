"""Tests of a pod's status: new, running, ended."""

from collections.abc import Iterator
from typing import Final

from controller_manager.api.json_objects import JSON

from . import annotations
from .pod_runs import PodRun
from .pod_status import is_ready

_NOT_BEGUN: Final = ("ContainerCreating", "PodInitializing")
"""The reasons of a container that has not started yet."""


def is_over(pod: JSON) -> bool:
    """Tell whether no container of a pod will run again."""
    return pod.get("status", {}).get("phase") in ("Failed", "Succeeded")


def has_begun(pod: JSON) -> bool:
    """Tell whether a container of a pod has run, or cannot start."""
    return bool(pod["spec"].get("nodeName")) and not has_not_begun(pod)


def has_not_begun(pod: JSON) -> bool:
    """Tell whether no container of a pod has started yet."""
    status = pod.get("status", {})
    return all(
        each.get("state", {}).get("waiting", {}).get("reason") in _NOT_BEGUN
        and not each.get("lastState")
        for name in ("initContainerStatuses", "containerStatuses")
        for each in status.get(name, ())
    )


def needs_attention(pod: JSON) -> bool:
    """Tell whether a pod without a next step may need a change of its status."""
    spec = pod["spec"]
    return bool(
        spec.get("activeDeadlineSeconds") is not None
        or spec.get("readinessGates")
        or annotations.has_any(pod)
        or shows_older_generation(pod)
        or list(_images(pod)) != list(_images_of_status(pod))
    )


def shows_older_generation(pod: JSON) -> bool:
    """Tell whether a kubelet reported the pod's status before its spec changed."""
    observed = pod["status"].get("observedGeneration")
    return observed is not None and observed != pod["metadata"].get("generation", 1)


def _images(pod: JSON) -> Iterator[str]:
    for name in ("initContainers", "containers"):
        yield from (each["image"] for each in pod["spec"].get(name, ()))


def _images_of_status(pod: JSON) -> Iterator[str]:
    for name in ("initContainerStatuses", "containerStatuses"):
        yield from (each.get("image", "") for each in pod["status"].get(name, ()))


def gates_differ(pod: JSON, run: PodRun) -> bool:
    """Tell whether the readiness gates of a pod change its readiness."""
    if not pod["spec"].get("readinessGates"):
        return False
    conditions = pod.get("status", {}).get("conditions", ())
    shown = any(
        each["type"] == "Ready" and each["status"] == "True" for each in conditions
    )
    return is_ready(pod, run) != shown
