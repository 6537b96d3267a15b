"""Pod: containers that run together on a node."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.core.pod_templates import default_pod_spec
from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.pod_spec_defaults import default_host_ports
from controller_manager.devcluster.kinds.scheduling_group import (
    GENERIC_WORKLOAD,
    OF_POD,
    drop_scheduling_group,
)
from controller_manager.devcluster.server.registry.rest_storage import RESTStorage
from controller_manager.devcluster.server.rest.strategy import Strategy, fields_by_path
from controller_manager.devcluster.server.rest.tables import Cells
from controller_manager.devcluster.server.storage import Storage
from controller_manager.devcluster.validation.pods import POD_SPEC
from controller_manager.devcluster.validation.rules import nested

from .binding import binding
from .columns import POD_COLUMNS, pod_cells
from .ephemeral_containers import (
    replace_ephemeral_containers,
    validate_ephemeral_containers,
)
from .eviction import eviction
from .qos import qos_class
from .resize import replace_resources, validate_resize
from .update_validation import (
    POD_STATUS_UPDATE,
    POD_UPDATE,
)

_LONGEST: Final = 100 * 365 * 86400
"""A hundred years: longer than each wait, and the end is still a valid date."""


class PodStrategy(Strategy):
    """Most of a pod's spec is immutable, and a pod has a grace period."""

    counts_generations: ClassVar = True
    returns_deleted: ClassVar = True
    records_deletion: ClassVar = True
    kept_by_status: ClassVar = ("ownerReferences",)
    empty: ClassVar = {"spec": {"containers": None}, "status": {}}
    selectable_fields: ClassVar = fields_by_path(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    )
    absent_fields: ClassVar = {"spec.hostNetwork": "false"}
    columns: ClassVar = POD_COLUMNS
    rules: ClassVar = nested("spec", [POD_SPEC])
    update_rules: ClassVar = POD_UPDATE
    status_update_rules: ClassVar = POD_STATUS_UPDATE

    def __init__(self, *, keeps_scheduling_group: bool = False) -> None:
        self._keeps_scheduling_group = keeps_scheduling_group

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in spec and requests."""
        spec = obj.setdefault("spec", {})
        default_pod_spec(spec)
        default_host_ports(spec)
        for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
            resources = container["resources"]
            if limits := resources.get("limits"):
                requests = {**limits, **resources.get("requests", {})}
                resources["requests"] = requests
        spec.setdefault("enableServiceLinks", True)

    def prepare_for_create(self, obj: JSON, storage: Storage) -> None:
        """Fill in the status; admission may have changed the resources.

        Drop the field of a feature that is off.
        """
        del storage
        _make_grace_positive(obj)
        if not self._keeps_scheduling_group:
            drop_scheduling_group(obj, OF_POD)
        status = obj["status"]
        status.setdefault("phase", "Pending")
        status.setdefault("qosClass", qos_class(obj["spec"]))
        if obj["spec"].get("schedulingGates"):
            status["conditions"] = [_GATED]

    def prepare_for_update(self, old: JSON, new: JSON) -> None:
        """Drop the field of a feature that is off, unless it was there before."""
        _make_grace_positive(new)
        if not self._keeps_scheduling_group:
            drop_scheduling_group(new, OF_POD, old)

    def grace_period(self, obj: JSON, wanted: int | None) -> int:
        """Return the grace period in seconds: 0 unless the pod runs on a node."""
        spec, phase = obj["spec"], obj.get("status", {}).get("phase")
        if not spec.get("nodeName") or phase in ("Succeeded", "Failed"):
            return 0
        period = wanted
        if period is None:
            period = int(spec.get("terminationGracePeriodSeconds", 30))
        current = obj["metadata"].get("deletionGracePeriodSeconds")
        if current is not None:
            period = min(period, current)
        return min(period, _LONGEST) if period >= 0 else 1

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        return pod_cells(obj, now)


def _make_grace_positive(pod: JSON) -> None:
    """Replace a negative grace period with one second.

    The body of an update of the status may have no spec.
    """
    spec = pod.get("spec") or {}
    if spec.get("terminationGracePeriodSeconds", 0) < 0:
        spec["terminationGracePeriodSeconds"] = 1


_GATED: Final = {
    "type": "PodScheduled",
    "observedGeneration": 1,
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
"""The condition of a new pod with scheduling gates."""

_REFUSALS: Final = {
    "log": (
        "pods/log is not served by the development cluster without nodes: start it "
        "with --nodes 1 or more"
    ),
}
"""The messages of subresources that are not served."""

KIND: Final = kind_of(
    "v1",
    "pods",
    PodStrategy(),
    replace={
        "ephemeralcontainers": replace_ephemeral_containers,
        "resize": replace_resources,
    },
    validate={
        "ephemeralcontainers": validate_ephemeral_containers,
        "resize": validate_resize,
    },
    refusals=_REFUSALS,
    gated=((GENERIC_WORKLOAD, PodStrategy(keeps_scheduling_group=True)),),
)
REST_STORAGE: Final = RESTStorage(
    KIND.resource, connect={"binding": binding, "eviction": eviction}
)
