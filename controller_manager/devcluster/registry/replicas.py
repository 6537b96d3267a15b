"""The strategy that replica sets and replication controllers share."""

from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import (
    Cells,
    Strategy,
    age,
    fields_by_path,
)

from .columns import REPLICAS, container_cells, name_of, selector_text
from .pod_spec_defaults import default_template
from .workload_validation import replica_status

_STATUS: Final = replica_status(
    "replicas, fullyLabeledReplicas, readyReplicas, availableReplicas, "
    "observedGeneration",
    "fullyLabeledReplicas, readyReplicas, availableReplicas",
)


class ReplicasStrategy(Strategy):
    """Defaults, validation and columns of both kinds."""

    counts_generations: ClassVar = True
    selectable_fields: ClassVar = fields_by_path("status.replicas")
    columns: ClassVar = REPLICAS
    status_rules: ClassVar = _STATUS

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in replicas and template."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        default_template(spec)

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
