"""Deliberate bugs of the aggregation of roles."""

from collections.abc import Iterable, Mapping
from typing import Final

from controller_manager.api.rbac.v1 import ClusterRole, PolicyRule
from controller_manager.controllers.identity.clusterroleaggregation import (
    aggregation,
    reconciler,
)
from controller_manager.controllers.identity.clusterroleaggregation.reconciler import (
    ClusterRoleAggregationReconciler,
)
from tests.simulation.planted import Bug

_gathered = aggregation.gathered
_has_rules = aggregation.has_rules
_SCENARIO: Final = "roles-come-and-go"


def _take_roles_as_they_come(
    role: ClusterRole, selected: Iterable[Iterable[ClusterRole]]
) -> tuple[PolicyRule, ...]:
    """Take the roles in the opposite order of their names."""
    rules = _gathered(role, selected)
    return rules[::-1]


def _gather_its_own(
    role: ClusterRole, selected: Iterable[Iterable[ClusterRole]]
) -> tuple[PolicyRule, ...]:
    """Gather also from the role itself."""
    return tuple(dict.fromkeys((*_gathered(role, selected), *(role.rules or ()))))


def _keep_the_last(role: ClusterRole, rules: tuple[PolicyRule, ...]) -> bool:
    """Take nothing from a role whose last source is gone."""
    return not rules or _has_rules(role, rules)


BUGS: Final[Mapping[str, Bug]] = {
    "gather roles in any order": Bug(
        0, reconciler, "gathered", _take_roles_as_they_come, _SCENARIO
    ),
    "gather a role's own rules": Bug(
        0, reconciler, "gathered", _gather_its_own, _SCENARIO
    ),
    "keep the rules of the last source": Bug(
        0, reconciler, "has_rules", _keep_the_last, _SCENARIO
    ),
    "miss changes of other roles": Bug(
        0,
        ClusterRoleAggregationReconciler,
        "watches",
        ClusterRoleAggregationReconciler.watches[:1],
        _SCENARIO,
    ),
}
