"""The feature gates of stateful sets."""

from typing import Final

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
gate, all their pods are replaced then.
"""
