"""The flags and feature gates of the daemon set controller."""

from typing import Final

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import concurrency
from controller_manager.options.gates import ATOMIC_FIFO, Gate

READS_OWN_WRITES: Final = Gate(
    "StaleControllerConsistencyDaemonSet", depends_on=(ATOMIC_FIFO.name,)
)
"""A daemon set is not synced before the caches show the writes of its last sync."""


class DaemonSetOptions(ControllerOptions):
    """The number of daemon sets that are synced at the same time."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-daemonset-syncs",
            2,
            "DaemonSetController.ConcurrentDaemonSetSyncs",
            "daemon sets",
        )
    )
