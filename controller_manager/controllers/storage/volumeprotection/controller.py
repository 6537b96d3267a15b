"""Adds and removes the finalizer of volumes (pv_protection_controller.go)."""

from typing import Final

from controller_manager.api.core import volumes
from controller_manager.api.core.volumes import PERSISTENT_VOLUMES, PersistentVolume
from controller_manager.api.meta import is_deleting
from controller_manager.control.protection import Protection
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For

FINALIZER: Final = "kubernetes.io/pv-protection"

PROTECTION: Final = Protection(FINALIZER)


def needs_work(volume: PersistentVolume) -> bool:
    """Tell whether a volume lacks the finalizer, or is deleted and has it."""
    return not PROTECTION.is_settled(volume)


def is_used(volume: PersistentVolume) -> bool:
    """Tell whether a volume is bound to a claim (isBeingUsed).

    The binder writes this phase before the claim names the volume.
    """
    return volume.status.phase == volumes.BOUND


class VolumeProtectionReconciler(Reconciler[PersistentVolume]):
    """Keeps deleted volumes until they are not bound any more.

    A volume that was bound in the meantime has another version, and is not written.
    """

    queue_name = "pvprotection"
    watches = (For(PERSISTENT_VOLUMES, when=needs_work),)

    async def reconcile(self, volume: PersistentVolume) -> Outcome:
        """Add the finalizer, or remove it if the deleted volume is not bound."""
        if not needs_work(volume):
            return DONE
        name = volume.metadata.name
        if is_deleting(volume) and is_used(volume):
            self.logger.v(4).info("Keeping PV because it is being used", PV=name)
            return DONE
        await PROTECTION.settle(self.client, PERSISTENT_VOLUMES, volume)
        self.logger.v(3).info(
            "Changed the finalizers of PV",
            PV=name,
            finalizers=PROTECTION.finalizers_of(volume),
        )
        return DONE
