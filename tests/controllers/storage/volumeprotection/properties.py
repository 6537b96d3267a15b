"""The promises of the protection of volumes."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from controller_manager.controllers.storage.volumeprotection.controller import FINALIZER
from tests.controllers.storage.volumeprotection.workload import DISKS, VolumeUsers
from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties, Write

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


_VOLUMES: Final = "persistentvolumes"


class VolumeProtectionProperties(Properties):
    """It changes the finalizer of volumes; no volume is gone while it is bound."""

    controller = "persistentvolume-protection-controller"
    may_write = (AllowedWrite(("update",), _VOLUMES, only(("metadata", "finalizers"))),)
    workload = VolumeUsers

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that no volume loses its finalizer while it is bound."""
        volume = write.before
        if write.controller != self.controller or volume is None:
            return
        if write.after is not None and _is_protected(write.after):
            return
        if volume.get("status", {}).get("phase") == "Bound":
            yield f"{write}: the volume is bound to a claim"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that volumes have the finalizer until they are deleted and free."""
        del managers
        for volume in self.state.stored(_VOLUMES):
            name, phase = volume["metadata"]["name"], volume["status"]["phase"]
            if not _is_deleted(volume) and not _is_protected(volume):
                yield f"the volume {name} has lost its finalizer"
            if _is_deleted(volume) and _is_protected(volume) and phase != "Bound":
                yield f"the deleted volume {name} stays, and its phase is {phase}"

    def end_state(self) -> JSON:
        """Return the finalizers of the users' volumes."""
        return {
            volume["metadata"]["name"]: volume["metadata"].get("finalizers")
            for volume in self.state.stored(_VOLUMES)
            if volume["spec"].get("storageClassName") == DISKS
        }


def _is_protected(volume: JSON) -> bool:
    return FINALIZER in volume["metadata"].get("finalizers", [])


def _is_deleted(volume: JSON) -> bool:
    return "deletionTimestamp" in volume["metadata"]


PROPERTIES = VolumeProtectionProperties
