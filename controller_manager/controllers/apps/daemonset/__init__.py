"""daemonset-controller: one pod on each node that fits."""

from controller_manager.api.apps.v1 import CONTROLLER_REVISIONS, DAEMON_SETS
from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.control.gates import COMPARISON_OPERATORS
from controller_manager.informers.reads import Reads
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

from .options import READS_OWN_WRITES, DaemonSetOptions

_REQUIRED_TERMS = (
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    ".nodeSelectorTerms"
)

CONTROLLER = Descriptor(
    name="daemonset-controller",
    aliases=("daemonset",),
    load=".reconciler:init_daemon_set_controller",
    requires=(DAEMON_SETS, CONTROLLER_REVISIONS, PODS, NODES),
    makes=((PODS, "DaemonSet"), (CONTROLLER_REVISIONS, "DaemonSet")),
    reads=(
        Reads(
            PODS,
            f"{_REQUIRED_TERMS}.matchFields",
            "spec.nodeName",
            "status.phase",
            "status.conditions[Ready]",
        ),
        Reads(NODES, "spec.taints"),
    ),
    options=DaemonSetOptions,
    gates=(COMPARISON_OPERATORS, READS_OWN_WRITES),
    permissions=(
        allow(DAEMON_SETS, "get", "list", "watch"),
        allow(DAEMON_SETS, "update", subresource="status"),
        allow(DAEMON_SETS, "update", subresource="finalizers"),
        allow(NODES, "list", "watch"),
        allow(PODS, "create", "delete", "list", "patch", "watch"),
        allow(PODS, "create", subresource="binding"),
        allow(
            CONTROLLER_REVISIONS,
            *("create", "delete", "get", "list", "patch", "update", "watch"),
        ),
        *RECORD_EVENTS,
    ),
    metrics=("daemonset_controller_stale_sync_skips_total",),
    service_account="daemon-set-controller",
)
