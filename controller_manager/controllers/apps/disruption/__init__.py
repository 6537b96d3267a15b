"""disruption-controller: counts the pods of a budget that may be evicted."""

from controller_manager.api.apps.v1 import DEPLOYMENTS, REPLICASETS, STATEFUL_SETS
from controller_manager.api.core.v1 import PODS, REPLICATION_CONTROLLERS
from controller_manager.api.policy.v1 import BUDGETS
from controller_manager.control.gates import OBSERVED_GENERATION
from controller_manager.informers.reads import Reads
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, Permission, allow

_READ = ("get", "list", "watch")

CONTROLLER = Descriptor(
    name="disruption-controller",
    aliases=("disruption",),
    load=".controller:init_disruption_controller",
    requires=(
        BUDGETS,
        PODS,
        DEPLOYMENTS,
        REPLICASETS,
        REPLICATION_CONTROLLERS,
        STATEFUL_SETS,
    ),
    reads=(
        Reads(
            PODS,
            *("metadata.generation", "status.phase"),
            *("status.conditions[Ready]", "status.conditions[DisruptionTarget]"),
        ),
    ),
    gates=(OBSERVED_GENERATION,),
    permissions=(
        allow(DEPLOYMENTS, *_READ),
        allow(REPLICASETS, *_READ),
        allow(REPLICATION_CONTROLLERS, *_READ),
        allow(BUDGETS, *_READ),
        allow(STATEFUL_SETS, *_READ),
        allow(BUDGETS, "update", subresource="status"),
        allow(PODS, "patch", "update", subresource="status"),
        Permission("*", "*/scale", ("get",)),
        *RECORD_EVENTS,
    ),
    component="controllermanager",
)
