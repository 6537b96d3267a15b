"""deployment-controller: rolls pod templates out through replica sets."""

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS
from controller_manager.api.core.v1 import PODS
from controller_manager.control.gates import TERMINATING_REPLICAS
from controller_manager.informers.reads import Reads
from controller_manager.options.controller_options import ControllerOptions, concurrency
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow


class DeploymentOptions(ControllerOptions):
    """The number of deployments that are synced at the same time."""

    concurrent_syncs: int = concurrency(
        "concurrent-deployment-syncs",
        5,
        "DeploymentController.ConcurrentDeploymentSyncs",
        "deployments",
    )


CONTROLLER = Descriptor(
    name="deployment-controller",
    aliases=("deployment",),
    load=".controller:DeploymentReconciler",
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
