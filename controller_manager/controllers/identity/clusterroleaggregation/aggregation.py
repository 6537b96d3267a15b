"""The rules of an aggregated role (clusterroleaggregation_controller.go)."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from controller_manager.api.rbac.v1 import ClusterRole, PolicyRule
from controller_manager.api.selectors import Selector, compile_selector


def selectors_of(role: ClusterRole) -> Sequence[Selector]:
    """Return the selectors of the roles whose rules a role aggregates.

    Raises SelectorError for an invalid selector.
    """
    rule = role.aggregation_rule
    selectors = rule.cluster_role_selectors if rule is not None else None
    return [compile_selector(each) for each in selectors or ()]


def is_aggregated(role: ClusterRole) -> bool:
    """Tell whether a role aggregates the rules of other roles."""
    return role.aggregation_rule is not None


def aggregated_rules(
    role: ClusterRole, selected: Iterable[Iterable[ClusterRole]]
) -> tuple[PolicyRule, ...]:
    """Return the rules of the roles that each selector of a role selects.

    They are in the order of the selectors, and of the names of the roles. Equal rules
    are listed once. The role itself is left out if it is selected.
    """
    sources = (
        each
        for roles in selected
        for each in sorted(roles, key=lambda each: each.metadata.name)
        if each.metadata.name != role.metadata.name
    )
    rules = (_normal(rule) for each in sources for rule in each.rules or ())
    return tuple(dict.fromkeys(rules))


def has_rules(role: ClusterRole, rules: tuple[PolicyRule, ...]) -> bool:
    """Tell whether a role has exactly these rules, in this order."""
    return tuple(map(_normal, role.rules or ())) == rules


def _normal(rule: PolicyRule) -> PolicyRule:
    """Return a rule without empty lists: an empty list and none are the same."""
    empty = [name for name in rule.__struct_fields__ if getattr(rule, name) == ()]
    return replace(rule, **dict.fromkeys(empty)) if empty else rule
