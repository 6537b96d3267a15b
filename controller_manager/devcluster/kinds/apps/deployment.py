"""Deployment: rolls out a pod template."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import (
    CONTAINERS,
    SELECTOR,
    container_cells,
    name_of,
    selector_text,
)
from controller_manager.devcluster.kinds.pod_spec_defaults import default_template
from controller_manager.devcluster.kinds.replica_status import validate_replica_status
from controller_manager.devcluster.kinds.workload_validation import (
    validate_selector_unchanged,
    validate_workload,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    forbidden_field,
    invalid,
    not_supported,
    shown,
)
from controller_manager.devcluster.server.rest.strategy import Strategy
from controller_manager.devcluster.server.rest.tables import (
    AGE,
    NAME,
    Cells,
    Column,
    age,
)
from controller_manager.devcluster.validation.field_values import (
    percent,
    validate_int_or_percent,
    validate_not_negative,
)

_COUNTS: Final = (
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "terminatingReplicas",
)
_BOUNDED: Final = ("updatedReplicas", "readyReplicas", "availableReplicas")


class DeploymentStrategy(Strategy):
    """The selector is immutable; a change of annotations is a new generation."""

    counts_generations: ClassVar = True
    kept_by_status: ClassVar = ("labels",)
    columns: ClassVar = (
        NAME,
        Column("Ready"),
        Column("Up-to-date"),
        Column("Available"),
        AGE,
        *CONTAINERS,
        SELECTOR,
    )

    def apply_defaults(self, obj: JSON) -> None:
        """Fill in replicas, template and strategy."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("replicas", 1)
        default_template(spec)
        strategy = spec.setdefault("strategy", {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)

    def changes_generation(self, old: JSON, new: JSON) -> bool:
        """Tell whether the spec or an annotation changes."""
        return super().changes_generation(old, new) or (
            old["metadata"].get("annotations") != new["metadata"].get("annotations")
        )

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check replicas, selector, template and strategy."""
        spec = obj["spec"]
        causes = validate_workload(obj)
        causes += _validate_rollout(spec["strategy"])
        causes += validate_not_negative(
            spec, "revisionHistoryLimit", "progressDeadlineSeconds"
        )
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
            field = "spec.progressDeadlineSeconds"
            detail = "must be greater than minReadySeconds"
            causes.append(invalid(field, shown(deadline), detail))
        return causes

    def validate_update(self, old: JSON, new: JSON) -> Sequence[Cause]:
        """Check that the selector does not change."""
        return validate_selector_unchanged(old, new)

    def validate_status(self, obj: JSON) -> Sequence[Cause]:
        """Check the counts of replicas."""
        return validate_replica_status(obj, _COUNTS, _BOUNDED)

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec, status = obj["spec"], obj.get("status", {})
        return [
            name_of(obj),
            f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
            status.get("updatedReplicas", 0),
            status.get("availableReplicas", 0),
            age(obj, now),
            *container_cells(spec["template"]),
            selector_text(spec.get("selector")),
        ]


def _validate_rollout(strategy: JSON) -> list[Cause]:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    field = "spec.strategy"
    match kind:
        case "Recreate":
            if rolling is None:
                return []
            detail = "may not be specified when strategy `type` is 'Recreate'"
            return [forbidden_field(f"{field}.rollingUpdate", detail)]
        case "RollingUpdate":
            return _rolling_update(rolling or {}, f"{field}.rollingUpdate")
        case _:
            value = {"Type": kind, "RollingUpdate": rolling}
            return [not_supported(field, shown(value), ("Recreate", "RollingUpdate"))]


def _rolling_update(rolling: JSON, field: str) -> list[Cause]:
    causes = []
    for name in ("maxUnavailable", "maxSurge"):
        causes += validate_int_or_percent(rolling.get(name, 0), f"{field}.{name}")
    unavailable = rolling.get("maxUnavailable", 0)
    if unavailable in (0, "0%") and rolling.get("maxSurge", 0) in (0, "0%"):
        detail = "may not be 0 when `maxSurge` is 0"
        causes.append(invalid(f"{field}.maxUnavailable", shown(unavailable), detail))
    if percent(unavailable) > 100:
        detail = "must not be greater than 100%"
        causes.append(invalid(f"{field}.maxUnavailable", shown(unavailable), detail))
    return causes


KIND: Final = kind_of("apps/v1", "deployments", DeploymentStrategy())
