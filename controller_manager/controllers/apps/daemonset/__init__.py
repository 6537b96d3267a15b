"""daemonset-controller: one pod on each node that fits."""

from typing import Final

from controller_manager.api.apps.v1 import CONTROLLER_REVISIONS, DAEMON_SETS
from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.control.gates import COMPARISON_OPERATORS
from controller_manager.informers.reads import Reads
from controller_manager.options.controller_options import ControllerOptions, concurrency
from controller_manager.options.gates import ATOMIC_FIFO, Gate
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

READS_OWN_WRITES: Final = Gate(
    "StaleControllerConsistencyDaemonSet", depends_on=(ATOMIC_FIFO.name,)
)
"""A daemon set is not synced before the caches show the writes of its last sync."""


class DaemonSetOptions(ControllerOptions):
    """The number of daemon sets that are synced at the same time."""

    concurrent_syncs: int = concurrency(
        "concurrent-daemonset-syncs",
        2,
        "DaemonSetController.ConcurrentDaemonSetSyncs",
        "daemon sets",
    )


_REQUIRED_TERMS = (
    "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    ".nodeSelectorTerms"
)

CONTROLLER = Descriptor(
    name="daemonset-controller",
    aliases=("daemonset",),
    load=".controller:init_daemon_set_controller",
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
