"""StatefulSet: pods with names and volumes of their own."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

from controller_manager.devcluster.kinds.columns import (
    CONTAINERS,
    container_cells,
    name_of,
)
from controller_manager.devcluster.kinds.pod_spec_defaults import default_template
from controller_manager.devcluster.kinds.workload_validation import (
    validate_selector_unchanged,
    validate_workload,
)
from controller_manager.devcluster.server.kind import SCALE, Kind, status_of
from controller_manager.devcluster.server.statuses import Cause
from controller_manager.devcluster.server.strategy import Strategy
from controller_manager.devcluster.server.tables import AGE, NAME, Cells, Column, age

JSON = dict[str, Any]


class StatefulSetStrategy(Strategy):
    """The selector is immutable."""

    counts_generations: ClassVar = True
    columns: ClassVar = (NAME, Column("Ready"), AGE, *CONTAINERS)
    models: ClassVar = ("V1RollingUpdateStatefulSetStrategy",)

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in replicas, template, pod management policy and update strategy."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        spec.setdefault("podManagementPolicy", "OrderedReady")
        strategy = spec.setdefault("updateStrategy", {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            strategy.setdefault("rollingUpdate", {}).setdefault("partition", 0)
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault(
            "persistentVolumeClaimRetentionPolicy",
            {"whenDeleted": "Retain", "whenScaled": "Retain"},
        )
        default_template(spec)
        status = obj.setdefault("status", {})
        status.setdefault("replicas", 0)
        status.setdefault("availableReplicas", 0)

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check replicas, selector and template."""
        return validate_workload(obj)

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that the selector does not change."""
        return validate_selector_unchanged(old, new)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec, status = obj["spec"], obj.get("status", {})
        return [
            name_of(obj),
            f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
            age(obj, now),
            *container_cells(spec["template"]),
        ]


KIND: Final = Kind(
    "apps",
    "v1",
    "StatefulSet",
    "statefulsets",
    model="V1StatefulSet",
    short_names=("sts",),
    categories=("all",),
    subresources=(SCALE, status_of("StatefulSet")),
    strategy=StatefulSetStrategy(),
)
