"""deployment-controller: rolls pod templates out through replica sets.

``reconciler`` has the handlers and caches, ``view`` the data of a sync, ``decide``
the decision, ``actions`` the possible actions, and ``apply`` carries them out.

Parts of ``decide``, all pure: ``rollout`` and ``templates`` (which replica set is
the new one), ``revisions``, ``creation`` (of the new replica set), ``scaling`` and
``resizing``, ``rolling`` and ``recreate`` (the two strategies), ``rollback``,
``progress``, ``status``, ``report`` and ``reasons`` (what a rollout waits for).
"""

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS
from controller_manager.api.core.v1 import PODS
from controller_manager.control.gates import TERMINATING_REPLICAS
from controller_manager.controllers.apps.deployment.options import DeploymentOptions
from controller_manager.informers.reads import Reads
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

CONTROLLER = Descriptor(
    name="deployment-controller",
    aliases=("deployment",),
    load=".reconciler:DeploymentReconciler",
    requires=(DEPLOYMENTS, REPLICASETS, PODS),
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
