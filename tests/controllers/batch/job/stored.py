"""Facts that stored jobs and pods contain."""

from collections.abc import Iterable
from typing import Final

from controller_manager.api.json_objects import JSON
from tests.simulation.objects import controller_of, lives

FINALIZER: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"

_US: Final = "kubernetes.io/job-controller"

ENDS: Final = ("Complete", "Failed")


def has(job: JSON, *types: str) -> bool:
    """Tell whether a condition of one of these types is true."""
    return any(
        each["type"] in types and each["status"] == "True"
        for each in job.get("status", {}).get("conditions") or ()
    )


def is_ours(job: JSON) -> bool:
    """Tell whether no other controller manages the job."""
    return bool(job["spec"].get("managedBy", _US) == _US)


def is_tracked(pod: JSON | None) -> bool:
    """Tell whether a pod exists and has the finalizer."""
    return pod is not None and FINALIZER in pod["metadata"].get("finalizers", [])


def index_of(pod: JSON) -> str:
    """Return the completion index of a pod, empty for none."""
    return str(pod["metadata"].get("annotations", {}).get(INDEX, ""))


def indexes_in(text: str | None) -> set[str]:
    """Return the indexes of a text like ``1,3-5``."""
    found: set[str] = set()
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        if first:
            found |= {str(each) for each in range(int(first), int(last or first) + 1)}
    return found


def phase_of(pod: JSON) -> str:
    """Return the phase of a pod, empty for none."""
    return str(pod.get("status", {}).get("phase", ""))


def has_ended(pod: JSON) -> bool:
    """Tell whether a pod has succeeded or failed."""
    return phase_of(pod) in ("Succeeded", "Failed")


def is_deleting(obj: JSON) -> bool:
    """Tell whether an object is being deleted."""
    return "deletionTimestamp" in obj["metadata"]


def is_indexed(job: JSON) -> bool:
    """Tell whether the pods of a job have indexes."""
    return bool(job["spec"].get("completionMode") == "Indexed")


def asked_for(job: JSON, pods: Iterable[JSON]) -> tuple[int, int]:
    """Return the live pods of a job, and these plus all successes so far.

    A pod that the selector no longer matches is not the job's, also before the job
    releases it: a new process that reads the API server replaces it first (seed 7602).
    """
    status = job.get("status", {})
    uid = job["metadata"]["uid"]
    owned = [pod for pod in pods if controller_of(pod) == uid and matches(job, pod)]
    live = sum(lives(pod, uid) for pod in owned)
    listed = (status.get("uncountedTerminatedPods") or {}).get("succeeded") or ()
    waiting = {
        pod["metadata"]["uid"]
        for pod in owned
        if phase_of(pod) == "Succeeded" and is_tracked(pod)
    }
    if is_indexed(job):
        completed = indexes_in(status.get("completedIndexes"))
        ended = {index_of(pod) for pod in owned if pod["metadata"]["uid"] in waiting}
        return live, live + len(completed | ended)
    return live, live + status.get("succeeded", 0) + len(waiting.union(listed))


def matches(job: JSON, pod: JSON) -> bool:
    """Tell whether the selector of a job matches the labels of a pod."""
    wanted = job["spec"].get("selector", {}).get("matchLabels", {})
    labels = pod["metadata"].get("labels", {})
    return all(labels.get(key) == value for key, value in wanted.items())
