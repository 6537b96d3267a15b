"""Applies aggregated rules (clusterroleaggregation_controller.go).

Indexes of cluster roles: by their labels, and by the labels that they select.

Upstream compares all roles with each aggregated role after each change of a role.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from controller_manager.api.meta import key_of, labels_of
from controller_manager.api.rbac.v1 import CLUSTER_ROLES, ClusterRole, PolicyRule
from controller_manager.api.selectors import Selector, SelectorError, compile_selector
from controller_manager.informers.store import Index
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


ANY: Final = ""
"""The entry of a selector that requires no certain label."""


def label_entries(role: ClusterRole) -> list[str]:
    """Return the entries of a role: each of its labels, with and without its value."""
    labels = labels_of(role)
    return [*labels, *(f"{key}={value}" for key, value in labels.items())]


def selector_entries(selector: Selector) -> list[str]:
    """Return entries of which each role that a selector selects has at least one."""
    if selector.exact:
        key, value = selector.exact[0]
        return [f"{key}={value}"]
    for each in selector.requirements:
        if each.operator == "In":
            return [f"{each.key}={value}" for value in sorted(each.values)]
        if each.operator == "Exists":
            return [each.key]
    return [ANY]


def _wanted(role: ClusterRole) -> Iterable[str]:
    try:
        selectors = selectors_of(role)
    except SelectorError:
        return ()
    return {entry for each in selectors for entry in selector_entries(each)}


BY_LABEL: Final = Index("label", label_entries)
"""Roles by each of their labels."""

BY_WANTED_LABEL: Final = Index(
    "wantedLabel",
    _wanted,
    lambda old, new: old.aggregation_rule == new.aggregation_rule,
)
"""Aggregated roles by the labels that their selectors require."""


FIELD_MANAGER: Final = "clusterrole-aggregation-controller"
"""The manager of the rules, in managedFields; upstream's."""


def _selects(role: ClusterRole, other: ClusterRole) -> bool:
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
        found = {
            key_of(each): each
            for entry in (*label_entries(role), ANY)
            for each in self._roles.by_index(BY_WANTED_LABEL, entry)
        }
        return [key for key, each in found.items() if _selects(each, role)]

    watches = (
        For(CLUSTER_ROLES, when=is_aggregated),
        Maps(CLUSTER_ROLES, _aggregated_by),
    )

    def __init__(self, context: ControllerContext) -> None:
        self._roles = context.lister(CLUSTER_ROLES, BY_LABEL, BY_WANTED_LABEL)
        super().__init__(context)

    async def reconcile(self, role: ClusterRole) -> Outcome:
        """Apply the rules of the roles that a role selects, unless it has them."""
        if not is_aggregated(role):
            return DONE
        rules = aggregated_rules(role, map(self._selected, selectors_of(role)))
        if has_rules(role, rules):
            return DONE
        # The uid is a precondition, so that a deleted role is not created again.
        config: dict[str, object] = {"metadata": {"uid": role.metadata.uid}}
        if rules:
            config["rules"] = rules
        await self.client.apply(
            CLUSTER_ROLES, role.metadata.name, config, FIELD_MANAGER
        )
        return DONE

    def _selected(self, selector: Selector) -> Sequence[ClusterRole]:
        entries, by_index = selector_entries(selector), self._roles.by_index
        found: Iterable[ClusterRole] = self._roles.all()
        if ANY not in entries:
            found = (each for entry in entries for each in by_index(BY_LABEL, entry))
        return [each for each in found if selector.matches(labels_of(each))]
