"""The properties of the resource pool status request controller."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from controller_manager.api.json_objects import JSON
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.controllers.resource.resourcepoolstatusrequest.workload import (
    DRIVER,
    PARTS,
    PLURAL,
    POOLS,
    PoolUsers,
    devices_of,
)
from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties, Write

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


class PoolStatusProperties(Properties):
    """It responds to each request once, with the pools at one moment."""

    controller = "resourcepoolstatusrequest-controller"
    may_write = (
        AllowedWrite(("update",), f"{PLURAL}/status", only(("status",))),
        AllowedWrite(("delete",), PLURAL),
    )
    workload = PoolUsers

    @classmethod
    def configured(cls, config: Config) -> Config:
        """Enable the gate that is off by default."""
        overrides = {**config.features.overrides, "DRAResourcePoolStatus": True}
        return replace(config, features=FeatureGates(overrides))

    def after_write(self, write: Write) -> Iterator[str]:
        """Check the content of a response, and that it is the first."""
        if write.controller != self.controller or write.before is None:
            return
        if write.after is None:
            if "status" not in write.before:
                yield f"{write}: the request was not answered"
            return
        if "status" in write.before:
            yield f"{write}: the request was answered already"
        if write.after["spec"]["driver"] != DRIVER:
            return
        pools = write.after["status"].get("pools", [])
        if [each["poolName"] for each in pools] != list(POOLS):
            yield f"{write}: not all pools are in the answer"
        for each in pools:
            expected = devices_of(each["generation"]) * PARTS
            if (each["totalDevices"], each["resourceSliceCount"]) != (expected, PARTS):
                yield f"{write}: {each} never was so"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that each request has a response."""
        del managers
        for each in self.state.stored(PLURAL):
            if "status" not in each:
                yield f"{each['metadata']['name']} has no answer"

    def end_state(self) -> JSON:
        """Return nothing: a response depends on its time, and is deleted later."""
        return {}


PROPERTIES = PoolStatusProperties
