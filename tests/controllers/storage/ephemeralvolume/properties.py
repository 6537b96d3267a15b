"""The promises of the controller of ephemeral volumes."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from tests.controllers.storage.ephemeralvolume.workload import (
    SCRATCH,
    EphemeralVolumeUsers,
)
from tests.simulation.objects import controller_of
from tests.simulation.properties import AllowedWrite, Properties, Write

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


_CLAIMS: Final = "persistentvolumeclaims"


class EphemeralVolumeProperties(Properties):
    """It creates claims that pods own; each pod gets the claims of its volumes."""

    controller = "ephemeral-volume-controller"
    may_write = (AllowedWrite(("create",), _CLAIMS),)
    workload = EphemeralVolumeUsers

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that a new claim is controlled by one pod, and named after it."""
        if write.controller != self.controller or write.after is None:
            return
        metadata = write.after["metadata"]
        owners = metadata.get("ownerReferences", [])
        if [each["kind"] for each in owners if each.get("controller")] != ["Pod"]:
            yield f"{write}: no pod controls the claim {metadata['name']}"
        elif not metadata["name"].startswith(f"{owners[0]['name']}-"):
            yield f"{write}: the claim is not named after the pod {owners[0]['name']}"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that every pod controls the claims of its ephemeral volumes."""
        del managers
        for pod in self.state.stored("pods"):
            if "deletionTimestamp" in pod["metadata"]:
                continue
            for name in _claim_names(pod):
                namespace = pod["metadata"]["namespace"]
                claim = self.state.find(_CLAIMS, namespace, name)
                if claim is None:
                    yield f"the claim {name} of an ephemeral volume is missing"
                elif controller_of(claim) != pod["metadata"]["uid"]:
                    yield f"the claim {name} is not controlled by its pod"

    def end_state(self) -> JSON:
        """Return the labels and owners of the users' claims."""
        return {
            claim["metadata"]["name"]: (
                claim["metadata"].get("labels"),
                [each["name"] for each in claim["metadata"]["ownerReferences"]],
            )
            for claim in self.state.stored(_CLAIMS, SCRATCH)
        }


def _claim_names(pod: JSON) -> list[str]:
    return [
        f"{pod['metadata']['name']}-{each['name']}"
        for each in pod["spec"].get("volumes", [])
        if "ephemeral" in each
    ]


PROPERTIES = EphemeralVolumeProperties
