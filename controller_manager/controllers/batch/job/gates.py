"""The feature gate of the job controller."""

from typing import Final

from controller_manager.options.gates import ATOMIC_FIFO, Gate

READS_OWN_WRITES: Final = Gate(
    "StaleControllerConsistencyJob", depends_on=(ATOMIC_FIFO.name,)
)
"""A job is not synced before the caches show the writes of its last sync."""
