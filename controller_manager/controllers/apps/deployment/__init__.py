"""deployment-controller: rolls pod templates out through replica sets.

``reconciler`` has the watches, ``caches`` the cached objects, ``view`` the data of a
sync, ``decide`` the decision, ``actions`` the possible actions; ``apply`` carries them
out. ``options`` and ``metrics`` are those of this controller.

Parts of ``decide``, all pure: ``revisions``, ``pod_template`` (equality and hashes),
``new_replica_set`` (its creation), ``scaling``, ``fenceposts`` (maxSurge and
maxUnavailable in pods), the strategies ``rolling_update`` and ``recreate``,
``rollback``, ``progress`` (the condition Progressing), ``status``, and ``report``
(decisions that end a sync, with the reasons why a rollout is not complete).
"""

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS
from controller_manager.api.core.v1 import PODS
from controller_manager.control.gates import TERMINATING_REPLICAS
from controller_manager.informers.reads import Reads
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

from .options import DeploymentOptions

CONTROLLER = Descriptor(
    name="deployment-controller",
    aliases=("deployment",),
    load=".reconciler:DeploymentReconciler",
    requires=(DEPLOYMENTS, REPLICASETS, PODS),
    makes=((REPLICASETS, "Deployment"),),
    reads=(Reads(PODS, "status.phase"),),
    options=DeploymentOptions,
    gates=(TERMINATING_REPLICAS,),
    permissions=(
        allow(DEPLOYMENTS, "get", "list", "update", "watch"),
        allow(DEPLOYMENTS, "update", subresource="status"),
        allow(DEPLOYMENTS, "update", subresource="finalizers"),
        allow(
            REPLICASETS,
            *("create", "delete", "get", "list", "patch", "update", "watch"),
        ),
        allow(PODS, "get", "list", "update", "watch"),
        *RECORD_EVENTS,
    ),
    metrics=("deployment_rollout_duration_seconds",),
)
