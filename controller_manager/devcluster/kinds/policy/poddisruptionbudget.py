"""PodDisruptionBudget: how many pods may be unavailable at a time."""

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.kinds.columns import name_of
from controller_manager.devcluster.scheme.statuses import (
    Cause,
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
from controller_manager.devcluster.validation.label_selectors import validate_selector

_COUNTS: Final = (
    "disruptionsAllowed",
    "currentHealthy",
    "desiredHealthy",
    "expectedPods",
)
_LIMITS: Final = ("minAvailable", "maxUnavailable")
_POLICIES: Final = ("IfHealthyBudget", "AlwaysAllow")


class PodDisruptionBudgetStrategy(Strategy):
    """Counts the changes of the spec as generations."""

    counts_generations: ClassVar = True
    columns: ClassVar = (
        NAME,
        Column("Min Available"),
        Column("Max Unavailable"),
        Column("Allowed Disruptions", "integer"),
        AGE,
    )

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the selector, and the one number that limits disruptions."""
        return _validate_spec(obj["spec"])

    def validate_status(self, obj: JSON) -> Sequence[Cause]:
        """Check that no count is negative."""
        return validate_not_negative(obj.get("status", {}), *_COUNTS, field="status")

    def cells(self, obj: JSON, now: datetime) -> Cells:
        """Return the row of the table."""
        spec = obj.get("spec", {})
        return [
            name_of(obj),
            str(spec.get("minAvailable", "N/A")),
            str(spec.get("maxUnavailable", "N/A")),
            obj.get("status", {}).get("disruptionsAllowed", 0),
            age(obj, now),
        ]


def _validate_spec(spec: JSON) -> list[Cause]:
    causes = []
    if all(name in spec for name in _LIMITS):
        value = shown({name: spec[name] for name in _LIMITS})
        detail = "minAvailable and maxUnavailable cannot be both set"
        causes.append(invalid("spec", value, detail))
    for name in _LIMITS:
        if name in spec:
            causes += validate_int_or_percent(spec[name], f"spec.{name}")
        if percent(spec.get(name, 0)) > 100:
            detail = "must not be greater than 100%"
            causes.append(invalid(f"spec.{name}", shown(spec[name]), detail))
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _POLICIES:
        where = "spec.unhealthyPodEvictionPolicy"
        causes.append(not_supported(where, shown(policy), _POLICIES))
    if "selector" in spec:
        causes += validate_selector(spec["selector"], "spec.selector")
    return causes


KIND: Final = kind_of(
    "policy/v1", "poddisruptionbudgets", PodDisruptionBudgetStrategy()
)
