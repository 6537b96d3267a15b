"""The flags of the namespace controller."""

from controller_manager.options.checks import not_negative
from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import Flag, concurrency


class NamespaceOptions(ControllerOptions):
    """The number of workers, and the period after which a namespace is synced again.

    `sync_period` is in seconds.
    """

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-namespace-syncs",
            10,
            "NamespaceController.ConcurrentNamespaceSyncs",
            "namespaces",
        )
    )
    sync_period: float = option(
        Flag(
            "namespace-sync-period",
            "duration",
            "5m0s",
            "The period for syncing the life cycle of namespaces.",
            "NamespaceController.NamespaceSyncPeriod",
            check=not_negative,
        )
    )
