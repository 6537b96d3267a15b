"""Properties of the approving controller."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from controller_manager.api.certificates.v1 import KUBELET_CLIENT
from tests.controllers.certificates.workload import NODE, PLURAL, Requesters
from tests.simulation.changes import Path
from tests.simulation.properties import AllowedWrite, Properties, Write

if TYPE_CHECKING:
    from tests.simulation.managers import Manager


def _approves(path: Path, old: Any, new: Any) -> bool:
    """Allow to add the condition Approved."""
    if path == ("metadata", "resourceVersion") or path[:2] == (
        "metadata",
        "managedFields",
    ):
        return True
    if path == ("status", "conditions"):
        return not old and [each["reason"] for each in new] == ["AutoApproved"]
    return False


class ApprovingProperties(Properties):
    """It approves what the API server allows, and nothing else."""

    controller = "certificatesigningrequest-approving-controller"
    may_write = (
        AllowedWrite(("create",), "subjectaccessreviews"),
        AllowedWrite(("update",), f"{PLURAL}/approval", _approves),
    )
    workload = Requesters

    def after_write(self, write: Write) -> Iterator[str]:
        """Check that only the node's own requests are approved."""
        if write.controller != self.controller or write.after is None:
            return
        if write.target.plural != PLURAL:
            return
        spec = write.after["spec"]
        if (spec["signerName"], spec.get("username")) != (KUBELET_CLIENT, NODE.name):
            yield f"{write}: {spec.get('username')} may not have this approved"

    def wrong_at_the_end(self, managers: "Sequence[Manager]") -> Iterator[str]:
        """Check that the node's request is approved."""
        del managers
        request = self.state.find(PLURAL, "", "kubelet")
        if request is not None and not request["status"].get("conditions"):
            yield "the request of the node is not approved"


PROPERTIES = ApprovingProperties
