"""The priority of a new pod (plugin/pkg/admission/priority)."""

from typing import Any

from controller_manager.devcluster.kinds.scheduling.priorityclass import (
    find_priority_class,
)
from controller_manager.devcluster.server.statuses import forbidden
from controller_manager.devcluster.server.storage import Storage

JSON = dict[str, Any]


def set_priority(pod: JSON, storage: Storage) -> None:
    """Give a pod the priority of its class; raises Refusal if there is no such class.

    A pod that names no class gets the default class, if there is one.
    """
    spec = pod.setdefault("spec", {})
    name = spec.get("priorityClassName", "")
    found = find_priority_class(storage, name)
    if found is None and not name:
        return
    if found is None:
        metadata = pod["metadata"]
        # The pod may have no name yet: then upstream's message shows its prefix.
        pod_name = metadata.get("name") or metadata.get("generateName", "")
        why = f"no PriorityClass with name {name} was found"
        raise forbidden("", "pods", pod_name, why)
    if not name:
        spec["priorityClassName"] = found["metadata"]["name"]
    spec["priority"] = found["value"]
    spec.setdefault("preemptionPolicy", found["preemptionPolicy"])
