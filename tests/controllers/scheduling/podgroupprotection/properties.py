"""The promises of the protection of groups."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from controller_manager.api.json_objects import JSON
from controller_manager.controllers.scheduling.podgroupprotection.controller import (
    FINALIZER,
)
from controller_manager.options.config import Config
from controller_manager.options.gates import FeatureGates
from tests.controllers.scheduling.podgroupprotection.workload import (
    GROUPS,
    PLURAL,
    GroupUsers,
)
from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties, Write

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


class GroupProtectionProperties(Properties):
    """It removes the finalizer of deleted groups, but never of a group in use."""

    controller = "podgroup-protection-controller"
    may_write = (AllowedWrite(("update",), PLURAL, only(("metadata", "finalizers"))),)
    workload = GroupUsers

    @classmethod
    def configured(cls, config: Config) -> Config:
        """Enable the gate that is off by default."""
        overrides = {**config.features.overrides, "GenericWorkload": True}
        return replace(config, features=FeatureGates(overrides))

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that no group loses its finalizer while a pod needs it."""
        group = write.before
        if write.controller != self.controller or group is None:
            return
        deleted = group["metadata"].get("deletionTimestamp")
        if deleted is None:
            yield f"{write}: the group is not being deleted"
            return
        for pod in self._users(group):
            # A pod that is created later is created in a group that goes.
            if pod["metadata"]["creationTimestamp"] < deleted:
                yield f"{write}: the pod {pod['metadata']['name']} uses the group"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that no deleted group stays without a pod that uses it."""
        del managers
        for group in self.state.stored(PLURAL):
            metadata = group["metadata"]
            held = FINALIZER in metadata.get("finalizers", [])
            if "deletionTimestamp" in metadata and held and not self._users(group):
                yield f"the deleted group {metadata['name']} stays"

    def end_state(self) -> JSON:
        """Return the finalizers of the users' groups."""
        return {
            group["metadata"]["name"]: group["metadata"].get("finalizers")
            for group in self.state.stored(PLURAL, GROUPS)
        }

    def _users(self, group: JSON) -> list[JSON]:
        metadata = group["metadata"]
        named = {"podGroupName": metadata["name"]}
        return [
            each
            for each in self.state.stored("pods", metadata["namespace"])
            if each["spec"].get("schedulingGroup") == named
            and each.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        ]


PROPERTIES = GroupProtectionProperties
