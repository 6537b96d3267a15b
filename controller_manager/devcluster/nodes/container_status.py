"""The containerStatus that a kubelet reports (pkg/kubelet/kubelet_pods.go)."""

from hashlib import sha256
from typing import Final

from controller_manager.api.json_objects import JSON
from controller_manager.api.scalars import parse_time

from .container_runs import ContainerRun, Step
from .images import image_id
from .log_lines import lines_of

_FALLBACK: Final = "FallbackToLogsOnError"
_LAST_LINES: Final = 80
_LAST_BYTES: Final = 2048
"""The most bytes of a log in the message of a failed container."""


def container_status(pod: JSON, run: ContainerRun, *, initializing: bool) -> JSON:
    """Return the status of a container; a new one may wait for init containers."""
    spec = run.spec
    waiting = {"reason": "PodInitializing" if initializing else "ContainerCreating"}
    has_run = run.step is not Step.NEW and ("waiting" not in run.state or run.last)
    status: JSON = {
        "name": spec["name"],
        "image": spec["image"],
        "imageID": image_id(spec["image"]) if has_run else "",
        "ready": run.is_ready,
        "started": run.is_started,
        "restartCount": run.restarts,
        "state": _identified(pod, run, run.state, 0) or {"waiting": waiting},
        "lastState": _identified(pod, run, run.last, 1),
    }
    if has_run:
        is_new = "waiting" not in run.state
        status["containerID"] = _container_id(pod, run, 0 if is_new else 1)
    if run.step is Step.RUNNING:
        status |= _in_use(spec)
    if mounts := spec.get("volumeMounts"):
        status["volumeMounts"] = [_mount(each) for each in mounts]
    return status


def ephemeral_status(pod: JSON, run: ContainerRun) -> JSON:
    """Return the status of an ephemeral container, which is never ready."""
    status = container_status(pod, run, initializing=False)
    return {**status, "ready": False, "started": False}


def _container_id(pod: JSON, run: ContainerRun, runs_ago: int) -> str:
    number = run.restarts - runs_ago
    text = f"{pod['metadata']['uid']} {run.spec['name']} {number}"
    return f"containerd://{sha256(text.encode()).hexdigest()}"


def _identified(pod: JSON, run: ContainerRun, state: JSON, runs_ago: int) -> JSON:
    """Return a state with the id of the container that has ended."""
    ended = state.get("terminated")
    if ended is None or "containerID" in ended:
        return state
    told = {"containerID": _container_id(pod, run, runs_ago)}
    if message := _last_words(pod, run.spec, ended):
        told["message"] = message
    return {"terminated": {**ended, **told}}


def _last_words(pod: JSON, spec: JSON, ended: JSON) -> str:
    """Return the end of the log of a container that has failed, if it asks for it."""
    if spec.get("terminationMessagePolicy") != _FALLBACK or not ended["exitCode"]:
        return ""
    began, end = parse_time(ended["startedAt"]), parse_time(ended["finishedAt"])
    seconds = (end - began).total_seconds()
    lines = [each.text for each in lines_of(pod, spec) if each.after <= seconds]
    return "".join(f"{each}\n" for each in lines[-_LAST_LINES:])[-_LAST_BYTES:]


def _in_use(spec: JSON) -> JSON:
    """Return the resources of a container that runs."""
    resources = spec.get("resources") or {}
    found: JSON = {"resources": resources}
    if requests := resources.get("requests"):
        found["allocatedResources"] = requests
    return found


def _mount(mount: JSON) -> JSON:
    found = {"mountPath": mount["mountPath"], "name": mount["name"]}
    if mount.get("readOnly"):
        found |= {"readOnly": True, "recursiveReadOnly": "Disabled"}
    return found
