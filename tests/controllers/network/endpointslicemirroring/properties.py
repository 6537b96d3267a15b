"""The properties of the mirroring controller."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from tests.controllers.network.endpointslicemirroring.model import (
    MANAGER,
    expected_metadata,
    expected_offers,
    is_mirror_of,
    is_to_be_mirrored,
    offers_of_slice,
)
from tests.controllers.network.endpointslicemirroring.workload import (
    NAMES,
    EndpointsUsers,
)
from tests.controllers.network.slices import SLICES, WRITES_OF_SLICES
from tests.simulation.objects import controller_of
from tests.simulation.properties import Properties, Write
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


_MANAGED: Final = "endpointslice.kubernetes.io/managed-by"


class MirroringProperties(Properties):
    """Slices have the addresses of hand-made Endpoints; others are not written."""

    controller = "endpointslice-mirroring-controller"
    may_write = WRITES_OF_SLICES
    workload = EndpointsUsers

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that only mirrored slices are written, and that they have an owner."""
        if write.controller != self.controller or write.target.plural != SLICES:
            return
        if write.before is not None and _manager_of(write.before) != MANAGER:
            yield f"{write}: the slice is of {_manager_of(write.before)}"
        if write.after is not None and not controller_of(write.after):
            yield f"{write}: the slice has no owner"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check all Endpoints, and that those that are not mirrored have no slice."""
        del managers
        slices = [
            each for each in self.state.stored(SLICES) if _manager_of(each) == MANAGER
        ]
        mirrored = []
        for endpoints in self.state.stored("endpoints"):
            metadata = endpoints["metadata"]
            service = self.state.find(
                "services", metadata["namespace"], metadata["name"]
            )
            if is_to_be_mirrored(endpoints, service):
                mine = [each for each in slices if is_mirror_of(each, endpoints)]
                mirrored += mine
                yield from _wrong_mirror(endpoints, mine)
        for each in slices:
            if each not in mirrored:
                yield f"the slice {each['metadata']['name']} mirrors nothing"

    def end_state(self) -> JSON:
        """Return the ports and addresses in the slices of the users' Endpoints."""
        found = {}
        for name in NAMES:
            endpoints = {"metadata": {"name": name, "namespace": NAMESPACE}}
            mine = (
                each
                for each in self.state.stored(SLICES, NAMESPACE)
                if is_mirror_of(each, endpoints)
            )
            found[name] = sorted(
                offer for each in mine for offer in offers_of_slice(each)
            )
        return found


def _manager_of(each: JSON) -> str:
    return str(each["metadata"].get("labels", {}).get(_MANAGED, "nobody"))


def _wrong_mirror(endpoints: JSON, slices: list[JSON]) -> Iterator[str]:
    name = endpoints["metadata"]["name"]
    offers = [offer for each in slices for offer in offers_of_slice(each)]
    if expected_offers(endpoints) != set(offers):
        differing = sorted(expected_offers(endpoints) ^ set(offers))
        yield f"the slices of {name} differ in {differing}"
    if len(offers) != len(set(offers)):
        yield f"the slices of {name} have an endpoint twice"
    metadata = expected_metadata(endpoints)
    for each in slices:
        found = {
            "labels": each["metadata"].get("labels", {}),
            "annotations": each["metadata"].get("annotations", {}),
        }
        if found != metadata:
            yield f"a slice of {name} has {found}"
        if controller_of(each) != endpoints["metadata"]["uid"]:
            yield f"a slice of {name} has another owner"


PROPERTIES = MirroringProperties
