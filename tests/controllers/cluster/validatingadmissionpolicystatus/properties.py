"""Properties of the status of policies."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from controller_manager.api.json_objects import JSON
from tests.controllers.cluster.validatingadmissionpolicystatus.workload import (
    EXPRESSIONS,
    PolicyAuthors,
)
from tests.simulation.changes import only
from tests.simulation.properties import AllowedWrite, Properties, Write

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


_POLICIES: Final = "validatingadmissionpolicies"
_WRITTEN: Final = (
    ("status", "observedGeneration"),
    ("status", "typeChecking"),
    ("metadata", "managedFields"),
)


class PolicyStatusProperties(Properties):
    """It writes the status of policies; in the end it is that of the present spec."""

    controller = "validatingadmissionpolicy-status-controller"
    may_write = (AllowedWrite(("patch",), f"{_POLICIES}/status", only(*_WRITTEN)),)
    workload = PolicyAuthors

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that no status is about a generation that is still to come."""
        if write.controller != self.controller or write.after is None:
            return
        seen = write.after["status"]["observedGeneration"]
        if seen > write.after["metadata"]["generation"]:
            yield f"{write}: there is no generation {seen} yet"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that each policy was checked, and has a warning where it is wrong."""
        del managers
        for policy in self.state.stored(_POLICIES):
            name, status = policy["metadata"]["name"], policy["status"]
            if status.get("observedGeneration") != policy["metadata"]["generation"]:
                yield f"the policy {name} was not checked: {status}"
            elif _warned(policy) != _wrong(policy):
                yield f"the policy {name} is wrong in {_wrong(policy)}: {status}"

    def end_state(self) -> JSON:
        """Return the warnings of the authors' policies."""
        return {
            policy["metadata"]["name"]: policy["status"].get("typeChecking")
            for policy in self.state.stored(_POLICIES)
        }


def _wrong(policy: JSON) -> list[str]:
    return [
        f"spec.validations[{number}].expression"
        for number, each in enumerate(policy["spec"]["validations"])
        if not EXPRESSIONS[each["expression"]]
    ]


def _warned(policy: JSON) -> list[str]:
    checking = policy["status"].get("typeChecking", {})
    return [each["fieldRef"] for each in checking.get("expressionWarnings", [])]


PROPERTIES = PolicyStatusProperties
