"""statefulset-controller: keeps pods with names and volumes of their own."""

from typing import Final

from controller_manager.api.apps.v1 import CONTROLLER_REVISIONS, STATEFUL_SETS
from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import PODS
from controller_manager.informers.reads import Reads
from controller_manager.options.controller_options import (
    ControllerOptions,
    concurrency,
    option,
)
from controller_manager.options.gates import ATOMIC_FIFO, Gate
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

READS_OWN_WRITES: Final = Gate(
    "StaleControllerConsistencyStatefulSet", depends_on=(ATOMIC_FIFO.name,)
)
"""A stateful set is not synced before the caches show the writes of its last sync."""

MAX_UNAVAILABLE: Final = Gate("MaxUnavailableStatefulSet", default=False)
"""A rolling update may make several pods unavailable, as its spec says.

The API server drops the field maxUnavailable while its own gate is disabled.
"""

SEMANTIC_REVISION_COMPARISON: Final = Gate("StatefulSetSemanticRevisionComparison")
"""The latest revision stays if it differs from the template only by defaults.

An API server that fills in a new field changes the template of every set. Without the
gate, this replaces all their pods.
"""


_STUCK_HELP = (
    "If true, a rolling update replaces pods that are not ready and whose revision "
    "does not work, if a container has not started or no node was found for ten "
    "minutes, instead of waiting for them. So a repaired template is rolled out "
    "though pods of the broken one never become ready. Set to false to wait, as "
    "kube-controller-manager does."
)


class StatefulSetOptions(ControllerOptions):
    """The number of syncs at the same time, and whether stuck pods are replaced."""

    concurrent_syncs: int = concurrency(
        "concurrent-statefulset-syncs",
        5,
        "StatefulSetController.ConcurrentStatefulSetSyncs",
        "stateful sets",
    )
    replaces_stuck_pods: bool = option(
        "statefulset-replace-stuck-pods", "bool", "true", _STUCK_HELP
    )


CONTROLLER = Descriptor(
    name="statefulset-controller",
    aliases=("statefulset",),
    load=".controller:StatefulSetReconciler",
    requires=(STATEFUL_SETS, CONTROLLER_REVISIONS, PODS, CLAIMS),
    makes=((PODS, "StatefulSet"), (CONTROLLER_REVISIONS, "StatefulSet")),
    reads=(
        Reads(
            PODS,
            *("spec.volumes.persistentVolumeClaim.claimName", "status.phase"),
            *("status.conditions[Ready]", "status.conditions[PodScheduled]"),
            "status.conditions[DisruptionTarget]",
            *(
                f"status.{statuses}.{field}"
                for statuses in ("containerStatuses", "initContainerStatuses")
                for field in ("name", "ready", "restartCount", "state.waiting.reason")
            ),
        ),
        Reads(CLAIMS),
    ),
    options=StatefulSetOptions,
    gates=(MAX_UNAVAILABLE, READS_OWN_WRITES, SEMANTIC_REVISION_COMPARISON),
    permissions=(
        allow(STATEFUL_SETS, "get", "list", "watch"),
        allow(STATEFUL_SETS, "update", subresource="status"),
        allow(STATEFUL_SETS, "update", subresource="finalizers"),
        allow(PODS, *("create", "delete", "get", "list", "patch", "update", "watch")),
        allow(
            CONTROLLER_REVISIONS,
            *("create", "delete", "get", "list", "patch", "update", "watch"),
        ),
        allow(CLAIMS, "create", "delete", "get", "list", "update", "watch"),
        allow(PODS, "update", subresource="finalizers"),
        *RECORD_EVENTS,
    ),
    metrics=(
        "statefulset_controller_stale_sync_skips_total",
        "statefulset_controller_statefulset_max_unavailable",
        "statefulset_controller_statefulset_unavailable_replicas",
    ),
)
