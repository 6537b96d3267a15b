"""ClusterRole: permissions in all namespaces."""

from collections.abc import Sequence
from typing import ClassVar, Final

from controller_manager.api.json_objects import JSON
from controller_manager.devcluster.kinds.built_in import kind_of
from controller_manager.devcluster.scheme.statuses import Cause, required
from controller_manager.devcluster.validation.label_selectors import validate_selector

from .roles import RoleStrategy


class ClusterRoleStrategy(RoleStrategy):
    """Rules may be for paths, and may be aggregated from other cluster roles."""

    is_namespaced: ClassVar = False

    def validate(self, obj: JSON) -> Sequence[Cause]:
        """Check the rules, and the selectors of the aggregation rule."""
        causes = list(super().validate(obj))
        rule = obj.get("aggregationRule")
        if rule is None:
            return causes
        selectors = rule.get("clusterRoleSelectors") or ()
        if not selectors:
            detail = (
                "at least one clusterRoleSelector required if aggregationRule is "
                "non-nil"
            )
            causes.append(required("aggregationRule.clusterRoleSelectors", detail))
        for index, each in enumerate(selectors):
            field = f"aggregationRule.clusterRoleSelectors[{index}]"
            causes += validate_selector(each, field)
        return causes


KIND: Final = kind_of(
    "rbac.authorization.k8s.io/v1", "clusterroles", ClusterRoleStrategy()
)
