"""Applies aggregated rules (clusterroleaggregation_controller.go)."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from msgspec.structs import replace

from controller_manager.api.meta import key_of, labels_of
from controller_manager.api.rbac.v1 import CLUSTER_ROLES, ClusterRole, PolicyRule
from controller_manager.api.selectors import Selector, SelectorError, compile_selector
from controller_manager.informers.store import BY_LABEL, BY_NAMESPACE, Index
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps


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


AGGREGATED: Final = Index(
    "aggregated",
    lambda role: ("",) if is_aggregated(role) else (),
    lambda old, new: is_aggregated(old) == is_aggregated(new),
)
"""The roles that aggregate others, which are few."""


FIELD_MANAGER: Final = "clusterrole-aggregation-controller"
"""The manager of the rules, in managedFields; upstream's."""


def selects(role: ClusterRole, other: ClusterRole) -> bool:
    """Tell whether a role aggregates the rules of another one."""
    labels = labels_of(other)
    try:
        return any(each.matches(labels) for each in selectors_of(role))
    except SelectorError:
        return False


class ClusterRoleAggregationReconciler(Reconciler[ClusterRole]):
    """Keeps the rules of aggregated roles equal to those of the roles they select.

    The reconciler uses server-side apply, as upstream does. So each of two managers
    removes outdated rules that the other has applied. If a role selects no role, rules
    that a user has written into it stay.
    """

    queue_name = "ClusterRoleAggregator"
    workers = 5

    def _aggregated_by(self, role: ClusterRole) -> Iterable[str]:
        aggregated = self._roles.by_index(AGGREGATED, "")
        return [key_of(each) for each in aggregated if selects(each, role)]

    watches = (
        For(CLUSTER_ROLES, when=is_aggregated),
        Maps(CLUSTER_ROLES, _aggregated_by),
    )

    def __init__(self, context: ControllerContext) -> None:
        indexes = (AGGREGATED, BY_LABEL, BY_NAMESPACE)
        self._roles = context.lister(CLUSTER_ROLES, *indexes)
        super().__init__(context)

    async def reconcile(self, role: ClusterRole) -> Outcome:
        """Apply the rules of the roles that a role selects, unless it has them."""
        if not is_aggregated(role):
            return DONE
        matching = partial(self._roles.matching, "")
        rules = aggregated_rules(role, map(matching, selectors_of(role)))
        if has_rules(role, rules):
            return DONE
        # The uid is a precondition, so that a deleted role is not created again.
        metadata = {"name": role.metadata.name, "uid": role.metadata.uid}
        config: dict[str, object] = {"metadata": metadata}
        if rules:
            config["rules"] = rules
        await self.client.apply(CLUSTER_ROLES, config, FIELD_MANAGER)
        return DONE
