"""The flags and feature gates of the stateful set controller."""

from typing import Final

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import Flag, concurrency
from controller_manager.options.gates import ATOMIC_FIFO, Gate

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

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-statefulset-syncs",
            5,
            "StatefulSetController.ConcurrentStatefulSetSyncs",
            "stateful sets",
        )
    )
    replaces_stuck_pods: bool = option(
        Flag("statefulset-replace-stuck-pods", "bool", "true", _STUCK_HELP)
    )
