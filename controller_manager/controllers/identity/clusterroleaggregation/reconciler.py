"""Applies aggregated rules (clusterroleaggregation_controller.go)."""

from collections.abc import Iterable, Sequence
from typing import Final

from controller_manager.api.meta import key_of, labels_of
from controller_manager.api.rbac.v1 import CLUSTER_ROLES, ClusterRole
from controller_manager.api.selectors import Selector, SelectorError
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For, Maps

from .aggregation import aggregated_rules, has_rules, is_aggregated, selectors_of
from .indexes import ANY, BY_LABEL, BY_WANTED_LABEL, label_entries, selector_entries

FIELD_MANAGER: Final = "clusterrole-aggregation-controller"
"""The manager of the rules, in managedFields; upstream's."""

_WORKERS: Final = 5


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

    def _aggregated_by(self, role: ClusterRole) -> Iterable[str]:
        """Return the aggregated roles that select a role."""
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
        """Take the context; index the roles."""
        self._roles = context.lister(CLUSTER_ROLES, BY_LABEL, BY_WANTED_LABEL)
        super().__init__(context)
        self.workers = _WORKERS

    async def reconcile(self, role: ClusterRole) -> Outcome:
        """Apply the rules of the roles that a role selects, unless it has them."""
        if not is_aggregated(role):
            return DONE
        rules = aggregated_rules(role, map(self._selected, selectors_of(role)))
        if has_rules(role, rules):
            return DONE
        # The uid is a precondition, so that a deleted role is not created again.
        config = {
            "metadata": {"uid": role.metadata.uid},
            **({"rules": rules} if rules else {}),
        }
        await self.client.apply(
            CLUSTER_ROLES, role.metadata.name, config, FIELD_MANAGER
        )
        return DONE

    def _selected(self, selector: Selector) -> Sequence[ClusterRole]:
        entries = selector_entries(selector)
        found = (
            self._roles.all()
            if ANY in entries
            else [
                each
                for entry in entries
                for each in self._roles.by_index(BY_LABEL, entry)
            ]
        )
        return [each for each in found if selector.matches(labels_of(each))]
