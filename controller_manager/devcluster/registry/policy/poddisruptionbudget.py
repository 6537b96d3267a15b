"""PodDisruptionBudget: how many pods may be unavailable at a time."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar, Final

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
from controller_manager.devcluster.registry.columns import name_of
from controller_manager.devcluster.scheme.statuses import (
    Cause,
    invalid,
    shown,
)
from controller_manager.devcluster.validation.field_values import (
    percent,
    validate_int_or_percent,
)
from controller_manager.devcluster.validation.text import table

_LIMITS: Final = ("minAvailable", "maxUnavailable")


def _one_limit(spec: JSON, path: str, _: JSON) -> Iterator[Cause]:
    if all(name in spec for name in _LIMITS):
        value = shown({name: spec[name] for name in _LIMITS})
        why = "minAvailable and maxUnavailable cannot be both set"
        yield invalid(path[:-1], value, why)


def _limit(value: Any, field: str) -> Iterator[Cause]:
    yield from validate_int_or_percent(value, field)
    if percent(value) > 100:
        yield invalid(field, shown(value), "must not be greater than 100%")


_RULES: Final = table(
    """
    spec:
      hook one_limit
      minAvailable, maxUnavailable: limit pointer
      unhealthyPodEvictionPolicy: enum IfHealthyBudget AlwaysAllow
      selector: selector
    """,
    _one_limit,
    _limit,
)
_STATUS: Final = table(
    """
    status:
      disruptionsAllowed, currentHealthy, desiredHealthy, expectedPods: not-negative
    """
)


class PodDisruptionBudgetStrategy(Strategy):
    """Counts the changes of the spec as generations."""

    counts_generations: ClassVar = True
    rules: ClassVar = _RULES
    status_rules: ClassVar = _STATUS
    columns: ClassVar = (
        NAME,
        Column("Min Available"),
        Column("Max Unavailable"),
        Column("Allowed Disruptions", "integer"),
        AGE,
    )

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


KIND: Final = kind_of(
    "policy/v1", "poddisruptionbudgets", PodDisruptionBudgetStrategy()
)
