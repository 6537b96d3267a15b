"""DaemonSet: a pod on every node."""

from datetime import datetime
from typing import Any, ClassVar, Final

from controller_manager.devcluster.kinds.columns import (
    CONTAINERS,
    SELECTOR,
    container_cells,
    name_of,
    selector_text,
)
from controller_manager.devcluster.kinds.pod_spec_defaults import default_template
from controller_manager.devcluster.server.kind import Kind, status_of
from controller_manager.devcluster.server.strategy import Strategy
from controller_manager.devcluster.server.tables import AGE, NAME, Cells, Column, age

JSON = dict[str, Any]

_COUNTS: Final = (
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
)
_SHOWN: Final = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
)


class DaemonSetStrategy(Strategy):
    """Writes the counts of nodes also when they are 0."""

    counts_generations: ClassVar = True
    columns: ClassVar = (
        NAME,
        Column("Desired", "integer"),
        Column("Current", "integer"),
        Column("Ready", "integer"),
        Column("Up-to-date", "integer"),
        Column("Available", "integer"),
        Column("Node Selector"),
        AGE,
        *CONTAINERS,
        SELECTOR,
    )
    models: ClassVar = ("V1RollingUpdateDaemonSet",)

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in template, update strategy, and counts."""
        spec = obj.setdefault("spec", {})
        strategy = spec.setdefault("updateStrategy", {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)
        default_template(spec)
        status = obj.setdefault("status", {})
        for name in _COUNTS:
            status.setdefault(name, 0)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec, status = obj["spec"], obj.get("status", {})
        nodes = spec["template"].get("spec", {}).get("nodeSelector")
        return [
            name_of(obj),
            *(status.get(name, 0) for name in _SHOWN),
            selector_text({"matchLabels": nodes} if nodes else None),
            age(obj, now),
            *container_cells(spec["template"]),
            selector_text(spec.get("selector")),
        ]


KIND: Final = Kind(
    "apps",
    "v1",
    "DaemonSet",
    "daemonsets",
    model="V1DaemonSet",
    short_names=("ds",),
    categories=("all",),
    subresources=(status_of("DaemonSet"),),
    strategy=DaemonSetStrategy(),
)
