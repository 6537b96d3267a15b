"""Select the pods of a step, and read a field of an object."""

from typing import Any, Final

from controller_manager.api.json_objects import JSON
from tests.conformance.normalise import is_ready

SELECTORS: Final = frozenset(
    (
        "selector",
        "name",
        "image",
        "phase_is",
        "index",
        "on",
        "isready",
        "unready",
        "terminating",
        "count",
    )
)
"""The fields of a step that select pods; `selector` selects them by their labels."""

_INDEX: Final = "batch.kubernetes.io/job-completion-index"
_NODE_TERMS: Final = (
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    ".nodeSelectorTerms"
)


def field(obj: Any, path: str) -> Any:
    """Return the value of a field, `None` if there is none; of a list, each one's."""
    for name in path.split("."):
        if isinstance(obj, list):
            obj = [field(each, name) for each in obj]
        elif isinstance(obj, dict):
            obj = obj.get(name)
        else:
            return None
    return obj


def wanted_node(pod: JSON) -> str | None:
    """Return the node that a pod's node affinity asks for by name."""
    for term in field(pod, _NODE_TERMS) or []:
        for each in term.get("matchFields") or []:
            if each["key"] == "metadata.name":
                return str(each["values"][0])
    return None


def select(pods: list[JSON], step: JSON) -> list[JSON]:
    """Return the pods that a step is about, oldest first, at most `count`.

    Pods that are being deleted are selected only by a step that says `terminating`.
    """
    chosen = [each for each in pods if _fits(each, step)]
    chosen.sort(key=_age)
    return chosen[: step.get("count", len(chosen))]


def _fits(pod: JSON, step: JSON) -> bool:
    metadata, spec = pod["metadata"], pod["spec"]
    pairs = (
        ("name", metadata["name"]),
        ("image", spec["containers"][0]["image"]),
        ("phase_is", pod.get("status", {}).get("phase")),
    )
    return (
        bool(step.get("terminating")) == ("deletionTimestamp" in metadata)
        and all(step.get(name) in (None, value) for name, value in pairs)
        and ("index" not in step or str(step["index"]) == _index(pod))
        and ("on" not in step or step["on"] in (spec.get("nodeName"), wanted_node(pod)))
        and not (step.get("isready") and not is_ready(pod))
        and not (step.get("unready") and is_ready(pod))
    )


def _index(pod: JSON) -> str | None:
    found: str | None = pod["metadata"].get("annotations", {}).get(_INDEX)
    return found


def _age(pod: JSON) -> tuple[str, str]:
    return pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]
