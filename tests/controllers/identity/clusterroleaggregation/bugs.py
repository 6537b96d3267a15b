"""Deliberate bugs of the aggregation of roles."""

from collections.abc import Iterable, Mapping
from typing import Final

from controller_manager.api.rbac.v1 import ClusterRole, PolicyRule
from controller_manager.controllers.identity.clusterroleaggregation import controller
from controller_manager.controllers.identity.clusterroleaggregation.controller import (
    ClusterRoleAggregationReconciler,
)
from tests.simulation.planted import Bug

_aggregated_rules = controller.aggregated_rules
_has_rules = controller.has_rules
_SCENARIO: Final = "roles-come-and-go"


def _reverse_the_order(
    role: ClusterRole, selected: Iterable[Iterable[ClusterRole]]
) -> tuple[PolicyRule, ...]:
    """Take the roles in the opposite order of their names."""
    rules = _aggregated_rules(role, selected)
    return rules[::-1]


def _aggregate_its_own_rules(
    role: ClusterRole, selected: Iterable[Iterable[ClusterRole]]
) -> tuple[PolicyRule, ...]:
    """Aggregate also the rules of the role itself."""
    return tuple(
        dict.fromkeys((*_aggregated_rules(role, selected), *(role.rules or ())))
    )


def _keep_the_last(role: ClusterRole, rules: tuple[PolicyRule, ...]) -> bool:
    """Keep the rules of a role whose last source is gone."""
    return not rules or _has_rules(role, rules)


BUGS: Final[Mapping[str, Bug]] = {
    "aggregate rules in any order": Bug(
        0, controller, "aggregated_rules", _reverse_the_order, _SCENARIO
    ),
    "aggregate a role's own rules": Bug(
        0, controller, "aggregated_rules", _aggregate_its_own_rules, _SCENARIO
    ),
    "keep the rules of the last source": Bug(
        0, controller, "has_rules", _keep_the_last, _SCENARIO
    ),
    "miss changes of other roles": Bug(
        0,
        ClusterRoleAggregationReconciler,
        "watches",
        ClusterRoleAggregationReconciler.watches[:1],
        _SCENARIO,
    ),
}
