"""clusterrole-aggregation-controller: aggregates the rules of cluster roles."""

from controller_manager.api.rbac.v1 import CLUSTER_ROLES
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import allow

CONTROLLER = Descriptor(
    name="clusterrole-aggregation-controller",
    aliases=("clusterrole-aggregation",),
    load=".controller:ClusterRoleAggregationReconciler",
    requires=(CLUSTER_ROLES,),
    permissions=(
        allow(CLUSTER_ROLES, "escalate", "get", "list", "patch", "update", "watch"),
    ),
)
