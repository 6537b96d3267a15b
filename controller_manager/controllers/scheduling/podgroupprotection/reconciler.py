"""Removes the finalizer of groups of pods (podgroup_protection_controller.go)."""

from collections.abc import Iterable
from functools import partial
from typing import Final

from controller_manager.api.core.v1 import PODS, Pod
from controller_manager.api.meta import key_of
from controller_manager.api.scheduling.v1alpha2 import POD_GROUPS, PodGroup
from controller_manager.control.live_use import LiveUse
from controller_manager.control.protection import Protection
from controller_manager.controllers.scheduling.podgroupprotection.use import (
    BY_GROUP,
    USERS,
    group_of,
)
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome, SyncError
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps

FINALIZER: Final = "scheduling.k8s.io/podgroup-protection"

PROTECTION: Final = Protection(FINALIZER)
WAITING: Final = PROTECTION.waiting


def is_held(group: PodGroup) -> bool:
    """Tell whether a group is being deleted and has the finalizer."""
    return PROTECTION.holds(group)


class PodGroupProtectionReconciler(Reconciler[PodGroup]):
    """Keeps deleted groups of pods until no pod uses them.

    The API server adds the finalizer to each new group. Before it is removed, the pods
    are listed from the API server: a cache may not show yet that one was created.
    """

    queue_name = "podgroupprotection"

    def _held_group(self, pod: Pod) -> Iterable[str]:
        """Return the group of a pod if it waits to be deleted."""
        key = group_of(pod)
        group = self.objects.by_key(key) if key else None
        return (key,) if group is not None and is_held(group) else ()

    watches = (For(POD_GROUPS, when=is_held), Maps(PODS, _held_group))

    def __init__(self, context: ControllerContext) -> None:
        """Take the context; index the pods by their groups."""
        super().__init__(context)
        self._users = context.lister(PODS, BY_GROUP)
        waiting = context.lister(POD_GROUPS, WAITING)
        self._live = LiveUse(context, partial(waiting.by_index, WAITING), USERS)

    async def reconcile(self, group: PodGroup) -> Outcome:
        """Take the finalizer from a deleted group that no pod uses."""
        if not is_held(group) or self._is_seen_in_use(group):
            return DONE
        is_used = await self._live.is_used(group)
        if not len(self.queue):
            self._live.forget()
        if is_used:
            # The change of the pod by which it becomes unused may be past.
            msg = f"a pod uses the pod group {key_of(group)}, and no cache shows it"
            raise SyncError(msg)
        await PROTECTION.settle(self.client, POD_GROUPS, group)
        return DONE

    def _is_seen_in_use(self, group: PodGroup) -> bool:
        found = self._users.by_index(BY_GROUP, key_of(group))
        if not found:
            return False
        self.logger.v(4).info(
            "Keeping PodGroup because it is being used",
            podGroup=key_of(group),
            pod=key_of(found[0]),
        )
        return True
