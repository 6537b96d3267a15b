"""The feature gates that only daemon sets read."""

from typing import Final

from controller_manager.options.gates import ATOMIC_FIFO, Gate

READS_OWN_WRITES: Final = Gate(
    "StaleControllerConsistencyDaemonSet", depends_on=(ATOMIC_FIFO.name,)
)
"""A daemon set is not synced before the caches show the writes of its last sync."""
