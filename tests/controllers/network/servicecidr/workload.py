"""Administrators and an API server that change ranges and their addresses."""

import asyncio
import random
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from tests.controllers.network.servicecidr.builders import address_json, ranges_json
from tests.simulation.workload import Workload
from tests.simulation.world import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.world import World


RANGES: Final[dict[str, tuple[str, ...]]] = {
    "sim-small": ("172.29.1.0/24",),
    "sim-twin": ("172.29.1.0/24",),
    "sim-large": ("172.29.0.0/16", "fd00:99::/112"),
}
"""The ranges of the administrators; they overlap."""

_ADDRESSES: Final = ("172.29.1.7", "172.29.2.7", "fd00:99::7")


class RangeUsers(Workload):
    """They replace ranges, and allocate and free addresses."""

    def __init__(self, world: "World") -> None:
        super().__init__(world)
        self._rng = random.Random(f"ranges {world.seed}")

    def create_objects(self, namespace: str) -> None:
        if namespace == NAMESPACE:
            for name in RANGES:
                self._create("servicecidrs", ranges_json(name, *RANGES[name]))

    async def use(self, operations: int) -> None:
        for _ in range(operations):
            await asyncio.sleep(self._rng.uniform(1, 60))
            act = self._rng.choice((self._allocate, self._free, self._delete))
            act()
            self._restore()

    async def clean_up(self) -> None:
        """Free all addresses, so that all deleted ranges can be released."""
        for address in _ADDRESSES:
            self._remove("ipaddresses", address)

    def _allocate(self) -> None:
        """Allocate an address, if a range that is not being deleted has it."""
        address = self._rng.choice(_ADDRESSES)
        inside = [name for name in RANGES if _has(name, address)]
        found = [self.world.find("servicecidrs", "", name) for name in inside]
        usable = [each for each in found if each and not _is_deleted(each)]
        if usable and self.world.find("ipaddresses", "", address) is None:
            self._create("ipaddresses", address_json(address))

    def _free(self) -> None:
        self._remove("ipaddresses", self._rng.choice(_ADDRESSES))

    def _delete(self) -> None:
        self._remove("servicecidrs", self._rng.choice([*RANGES]))

    def _restore(self) -> None:
        """Create one of the ranges that are gone, now and then."""
        gone = [
            name for name in RANGES if not self.world.find("servicecidrs", "", name)
        ]
        if gone and self._rng.random() < 0.5:
            name = self._rng.choice(gone)
            self._create("servicecidrs", ranges_json(name, *RANGES[name]))

    def _create(self, plural: str, obj: JSON) -> None:
        self.world.server.objects.create(self.world.kind(plural), "", obj)

    def _remove(self, plural: str, name: str) -> None:
        found = self.world.find(plural, "", name)
        if found is not None and not _is_deleted(found):
            self.world.delete(plural, found)


def _is_deleted(obj: JSON) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def _has(name: str, address: str) -> bool:
    """Tell whether ranges of the administrators have an address of theirs."""
    if address.startswith("172.29.1."):
        return True
    return name == "sim-large"
