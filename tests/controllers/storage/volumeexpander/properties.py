"""The promises of the expander of volumes."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from controller_manager.api.core.volumes import PRE_RESIZE_CAPACITY
from controller_manager.api.json_objects import JSON
from controller_manager.api.quantity import Quantity, parse_quantity
from controller_manager.controllers.storage.volumeexpander.controller import RESIZER
from tests.controllers.storage.volumeexpander.workload import (
    CLAIMS,
    GROWING,
    VOLUMES,
    ClaimGrowers,
)
from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties, Write

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


_CLAIM_CHANGES: Final = only(
    ("metadata", "annotations"),
    ("status", "allocatedResources"),
    ("status", "allocatedResourceStatuses"),
    ("status", "capacity"),
    ("status", "conditions"),
)
_VOLUME_CHANGES: Final = only(("metadata", "annotations"), ("spec", "capacity"))


class VolumeExpanderProperties(Properties):
    """It prepares claims and volumes for their resizers; no volume shrinks."""

    controller = "persistentvolume-expander-controller"
    may_write = (
        AllowedWrite(("patch",), f"{CLAIMS}/status", _CLAIM_CHANGES),
        AllowedWrite(("patch",), VOLUMES, _VOLUME_CHANGES),
    )
    workload = ClaimGrowers

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that no volume becomes smaller."""
        if write.controller != self.controller or write.target.resource != VOLUMES:
            return
        if write.before is not None and write.after is not None:
            before, after = _capacity(write.before), _capacity(write.after)
            if after < before:
                yield f"{write}: {before} became {after}"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that each grown claim names its resizer or waits for a kubelet."""
        del managers
        for claim in self.state.stored(CLAIMS):
            name = claim["metadata"]["name"]
            volume = self.state.find(VOLUMES, "", claim["spec"].get("volumeName", ""))
            if claim["status"].get("phase") != "Bound" or volume is None:
                continue
            requested = parse_quantity(
                claim["spec"]["resources"]["requests"]["storage"]
            )
            has = parse_quantity(claim["status"]["capacity"]["storage"])
            if requested <= has:
                if "flexVolume" in volume["spec"] and _mark(volume):
                    yield f"the volume of {name} is still marked, and it is expanded"
                continue
            if "awsElasticBlockStore" in volume["spec"] and not _resizer(claim):
                yield f"the claim {name} does not name its resizer"
            if "flexVolume" in volume["spec"]:
                yield from self._unprepared(claim, volume)

    def _unprepared(self, claim: JSON, volume: JSON) -> Iterator[str]:
        name = claim["metadata"]["name"]
        states = claim["status"].get("allocatedResourceStatuses", {})
        if states.get("storage") != "NodeResizePending":
            yield f"the claim {name} does not wait for its kubelet"
        if not _mark(volume):
            yield f"the volume of {name} does not keep its former capacity"

    def end_state(self) -> JSON:
        """Return the resizers of the users' claims."""
        return {
            claim["metadata"]["name"]: _resizer(claim)
            for claim in self.state.stored(CLAIMS, GROWING)
        }


def _capacity(volume: JSON) -> Quantity:
    return parse_quantity(volume["spec"]["capacity"]["storage"])


def _mark(volume: JSON) -> str | None:
    annotations: dict[str, str] = volume["metadata"].get("annotations", {})
    return annotations.get(PRE_RESIZE_CAPACITY)


def _resizer(claim: JSON) -> str | None:
    annotations: dict[str, str] = claim["metadata"].get("annotations", {})
    return annotations.get(RESIZER)


PROPERTIES = VolumeExpanderProperties
