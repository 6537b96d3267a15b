"""ReplicationController: what was before replica sets."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

from controller_manager.devcluster.kinds.columns import (
    REPLICAS,
    container_cells,
    name_of,
    selector_text,
)
from controller_manager.devcluster.kinds.pod_spec_defaults import default_template
from controller_manager.devcluster.kinds.replica_status import (
    REPLICA_SET_COUNTS,
    validate_replica_status,
)
from controller_manager.devcluster.server.kind import SCALE, Kind, status_of
from controller_manager.devcluster.server.statuses import Cause
from controller_manager.devcluster.server.strategy import Strategy, fields_by_path
from controller_manager.devcluster.server.tables import Cells, age

JSON = dict[str, Any]


class ReplicationControllerStrategy(Strategy):
    """Selects by plain labels, those of its template unless told otherwise."""

    counts_generations: ClassVar = True
    orphans_dependents: ClassVar = True
    null_condition_times: ClassVar = ("lastTransitionTime",)
    selectable_fields: ClassVar = fields_by_path("status.replicas")
    columns: ClassVar = REPLICAS

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in size, template, selector and labels."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        default_template(spec)
        obj.setdefault("status", {}).setdefault("replicas", 0)
        if labels := spec["template"]["metadata"].get("labels"):
            spec.setdefault("selector", dict(labels))
            obj["metadata"].setdefault("labels", dict(labels))

    def validate_status(self, obj: JSON) -> Sequence[Cause]:
        """Check the counts of replicas."""
        return validate_replica_status(obj, *REPLICA_SET_COUNTS)

    def label_selector(self, obj: JSON) -> JSON | None:
        """Return the LabelSelector of the pods."""
        selector = obj["spec"].get("selector")
        return {"matchLabels": selector} if selector else None

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec, status = obj["spec"], obj.get("status", {})
        return [
            name_of(obj),
            spec.get("replicas", 0),
            status.get("replicas", 0),
            status.get("readyReplicas", 0),
            age(obj, now),
            *container_cells(spec["template"]),
            selector_text(self.label_selector(obj)),
        ]


KIND: Final = Kind(
    "",
    "v1",
    "ReplicationController",
    "replicationcontrollers",
    model="V1ReplicationController",
    short_names=("rc",),
    categories=("all",),
    subresources=(SCALE, status_of("ReplicationController")),
    strategy=ReplicationControllerStrategy(),
)
