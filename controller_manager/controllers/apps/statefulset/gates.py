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
