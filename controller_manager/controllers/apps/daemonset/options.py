"""The flags of the daemon set controller."""

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import concurrency


class DaemonSetOptions(ControllerOptions):
    """How many daemon sets are synced at a time."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-daemonset-syncs",
            2,
            "DaemonSetController.ConcurrentDaemonSetSyncs",
            "daemon sets",
        )
    )
