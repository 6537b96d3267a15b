"""The feature gate that only replica sets have."""

from typing import Final

from controller_manager.options.gates import ATOMIC_FIFO, Gate

READS_OWN_WRITES: Final = Gate(
    "StaleControllerConsistencyReplicaSet", depends_on=(ATOMIC_FIFO.name,)
)
"""A replica set is not synced before the caches show the writes of its last sync."""
