"""The feature gates that only daemon sets read."""

from typing import Final

from controller_manager.options.gates import ATOMIC_FIFO, Gate

COMPARISON_OPERATORS: Final = Gate(
    "TaintTolerationComparisonOperators", stage="ALPHA", default=False
)
"""Tolerations may compare numbers, with the operators Lt and Gt."""

READS_OWN_WRITES: Final = Gate(
    "StaleControllerConsistencyDaemonSet", depends_on=(ATOMIC_FIFO.name,)
)
"""A daemon set is not synced before the caches show the writes of its last sync."""
