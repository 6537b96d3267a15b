"""Which pods use a group (podgroup_protection_controller.go)."""

from collections.abc import Iterable
from typing import Final

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.pods import TERMINAL_PHASES
from controller_manager.control.live_use import Users
from controller_manager.informers.indexes import Index


def group_of(pod: Pod) -> str:
    """Return the key of a pod's group, "" if it has none."""
    group = pod.spec.scheduling_group
    if group is None or not group.pod_group_name:
        return ""
    return f"{pod.metadata.namespace}/{group.pod_group_name}"


def used_by(pod: Pod) -> Iterable[str]:
    """Return the key of the group that a pod uses; one that has ended uses none."""
    group = group_of(pod)
    return (group,) if group and pod.status.phase not in TERMINAL_PHASES else ()


def _uses_the_same(old: Pod, new: Pod) -> bool:
    return used_by(old) == used_by(new)


BY_GROUP: Final = Index("pod group", used_by, _uses_the_same)
"""The pods that use a group, by its key."""

USERS: Final = Users(PODS, used_by)
