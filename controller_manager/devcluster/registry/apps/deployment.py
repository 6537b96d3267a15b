"""Deployment: rolls out a pod template."""

from collections.abc import Iterator
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.apiserver.strategy import (
    AGE,
    NAME,
    Cells,
    Column,
    Strategy,
    age,
)
from controller_manager.devcluster.registry.built_in import kind_of
from controller_manager.devcluster.registry.columns import (
    CONTAINERS,
    SELECTOR,
    container_cells,
    name_of,
    selector_text,
)
from controller_manager.devcluster.registry.pod_spec_defaults import default_template
from controller_manager.devcluster.registry.workload_validation import (
    SELECTOR_UPDATE,
    WORKLOAD,
    is_above_all,
    replica_status,
    strategy_as_go_prints,
)
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    not_supported,
)
from controller_manager.devcluster.validation.text import table


def _type(strategy: JSON, path: str, _: JSON) -> Iterator[Cause]:
    value, known = strategy_as_go_prints(strategy), ("Recreate", "RollingUpdate")
    yield not_supported(path[:-1], value, known)


def _stands_still(rolling: JSON, _: JSON) -> bool:
    limits = (rolling.get(name, 0) for name in ("maxUnavailable", "maxSurge"))
    return all(each in (0, "0%") for each in limits)


def _ends_early(spec: JSON, _: JSON) -> bool:
    deadline = spec.get("progressDeadlineSeconds")
    return deadline is not None and deadline <= spec.get("minReadySeconds", 0)


_DEPLOYMENT: Final = table(
    """
    spec:
      include WORKLOAD
      strategy:
        when type is Recreate:
          rollingUpdate: forbidden
            "may not be specified when strategy `type` is 'Recreate'"
        when type is RollingUpdate:
          rollingUpdate always:
            maxUnavailable, maxSurge: int-or-percent default 0
            maxUnavailable: invalid default 0 if stands_still
              "may not be 0 when `maxSurge` is 0"
            maxUnavailable: invalid if is_above_all "must not be greater than 100%"
        when type is-not Recreate RollingUpdate:
          hook type
      revisionHistoryLimit, progressDeadlineSeconds: not-negative
      progressDeadlineSeconds: invalid if ends_early
        "must be greater than minReadySeconds"
    """,
    _stands_still,
    is_above_all,
    _type,
    _ends_early,
    WORKLOAD=WORKLOAD,
)
_STATUS: Final = replica_status(
    "replicas, updatedReplicas, readyReplicas, availableReplicas, unavailableReplicas, "
    "terminatingReplicas",
    "updatedReplicas, readyReplicas, availableReplicas",
)


class DeploymentStrategy(Strategy):
    """The selector is immutable; a change of annotations is a new generation."""

    rules: ClassVar = _DEPLOYMENT
    update_rules: ClassVar = SELECTOR_UPDATE
    status_rules: ClassVar = _STATUS
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


KIND: Final = kind_of("apps/v1", "deployments", DeploymentStrategy())
