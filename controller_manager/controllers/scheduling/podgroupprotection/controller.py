"""Removes the finalizer of groups of pods (podgroup_protection_controller.go)."""

from collections.abc import Iterable
from typing import Final

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import key_of
from controller_manager.api.pods import TERMINAL_PHASES
from controller_manager.api.scheduling.v1alpha2 import POD_GROUPS, PodGroup
from controller_manager.control.protection import (
    LiveProtectionReconciler,
    Protection,
    Users,
)
from controller_manager.informers.changes import DependsOn
from controller_manager.informers.store import Index
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.watches import For, Maps

FINALIZER: Final = "scheduling.k8s.io/podgroup-protection"

PROTECTION: Final = Protection(FINALIZER)


def group_of(pod: Pod) -> str:
    """Return the key of a pod's group, "" if it has none."""
    group = pod.spec.scheduling_group
    if group is None or not group.pod_group_name:
        return ""
    return f"{pod.metadata.namespace}/{group.pod_group_name}"


_USE: Final = DependsOn("status.phase", reading=("spec.schedulingGroup",))
"""The parts of a pod by which it uses its group."""


def used_by(pod: Pod) -> Iterable[str]:
    """Return the key of the group that a pod uses; an ended pod uses none."""
    group = group_of(pod)
    return (group,) if group and pod.status.phase not in TERMINAL_PHASES else ()


BY_GROUP: Final = Index("pod group", used_by, depends_on=_USE)
"""The pods that use a group, by its key."""

USERS: Final = Users(PODS, used_by)


def is_held(group: PodGroup) -> bool:
    """Tell whether a group is being deleted and has the finalizer."""
    return PROTECTION.holds(group)


class PodGroupProtectionReconciler(LiveProtectionReconciler[PodGroup]):
    """Keeps deleted groups of pods until no pod uses them.

    Before the finalizer is removed, the pods are listed from the API server: a cache
    may not show yet that a pod was created.
    """

    queue_name = "podgroupprotection"
    protection = PROTECTION
    users = (USERS,)

    def _held_group(self, pod: Pod) -> Iterable[str]:
        key = group_of(pod)
        group = self.objects.by_key(key) if key else None
        return (key,) if group is not None and is_held(group) else ()

    watches = (For(POD_GROUPS, when=is_held), Maps(PODS, _held_group, depends_on=_USE))

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._users = context.lister(PODS, BY_GROUP)

    async def reconcile(self, group: PodGroup) -> Outcome:
        """Remove the finalizer from a deleted group that no pod uses."""
        if not is_held(group) or self._is_seen_in_use(group):
            return DONE
        await self.check_unused(group)
        await PROTECTION.settle(self.client, POD_GROUPS, group)
        return DONE

    def _is_seen_in_use(self, group: PodGroup) -> bool:
        found = self._users.by_index(BY_GROUP, key_of(group))
        if not found:
            return False
        text = "Keeping PodGroup because it is being used"
        self.logger.v(4).info(text, podGroup=key_of(group), pod=key_of(found[0]))
        return True
