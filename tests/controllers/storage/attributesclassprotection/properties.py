"""The promises of the protection of classes of attributes."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from controller_manager.api.json_objects import JSON
from controller_manager.controllers.storage.attributesclassprotection import controller
from tests.controllers.storage.attributesclassprotection.workload import (
    CLAIMS,
    PLURAL,
    VOLUMES,
    AttributesClassUsers,
)
from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties, Write

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


class AttributesClassProtectionProperties(Properties):
    """It changes the finalizer of classes; no class is gone while it is in use."""

    controller = "volumeattributesclass-protection-controller"
    may_write = (AllowedWrite(("update",), PLURAL, only(("metadata", "finalizers"))),)
    workload = AttributesClassUsers

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that a class that was in use at its deletion keeps its finalizer."""
        before = write.before
        if write.controller != self.controller or before is None:
            return
        if write.after is not None and _is_protected(write.after):
            return
        deleted = str(before["metadata"].get("deletionTimestamp", ""))
        for user in self._users(before["metadata"]["name"]):
            if str(user["metadata"]["creationTimestamp"]) < deleted:
                yield f"{write}: {user['kind']} {user['metadata']['name']} uses it"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that classes have the finalizer until they are deleted and unused."""
        del managers
        for each in self.state.stored(PLURAL):
            name = each["metadata"]["name"]
            if not _is_deleted(each) and not _is_protected(each):
                yield f"the class {name} has lost its finalizer"
            if _is_deleted(each) and _is_protected(each) and not self._users(name):
                yield f"the deleted class {name} stays, and nothing uses it"

    def end_state(self) -> JSON:
        """Return the finalizers of all classes."""
        return {
            each["metadata"]["name"]: each["metadata"].get("finalizers")
            for each in self.state.stored(PLURAL)
        }

    def _users(self, name: str) -> list[JSON]:
        users = [*self.state.stored(CLAIMS), *self.state.stored(VOLUMES)]
        return [
            each
            for each in users
            if each["spec"].get("volumeAttributesClassName") == name
        ]


def _is_protected(obj: JSON) -> bool:
    return controller.FINALIZER in obj["metadata"].get("finalizers", [])


def _is_deleted(obj: JSON) -> bool:
    return "deletionTimestamp" in obj["metadata"]


PROPERTIES = AttributesClassProtectionProperties
