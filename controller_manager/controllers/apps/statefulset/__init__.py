"""statefulset-controller: keeps pods with names and volumes of their own."""

from controller_manager.api.apps.v1 import CONTROLLER_REVISIONS, STATEFUL_SETS
from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.v1 import PODS
from controller_manager.informers.reads import Reads
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

from .options import (
    MAX_UNAVAILABLE,
    READS_OWN_WRITES,
    SEMANTIC_REVISION_COMPARISON,
    StatefulSetOptions,
)

CONTROLLER = Descriptor(
    name="statefulset-controller",
    aliases=("statefulset",),
    load=".reconciler:StatefulSetReconciler",
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
