"""The flags of the attach-detach controller."""

from controller_manager.options.checks import at_least_a_second
from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import Flag


class AttachDetachOptions(ControllerOptions):
    """When attachments that were lost are made again, and whether force is used."""

    reconcile_sync_period: float = option(
        Flag(
            "attach-detach-reconcile-sync-period",
            "duration",
            "1m0s",
            "How long a volume that a node lists as attached, and whose attachment is "
            "lost, is trusted before it is attached again.",
            "AttachDetachController.ReconcilerSyncLoopPeriod",
            check=at_least_a_second,
        )
    )
    disable_reconcile_sync: bool = option(
        Flag(
            "disable-attach-detach-reconcile-sync",
            "bool",
            "false",
            "Do not attach volumes again whose attachments are lost.",
            "AttachDetachController.DisableAttachDetachReconcilerSync",
        )
    )
    disable_force_detach: bool = option(
        Flag(
            "disable-force-detach-on-timeout",
            "bool",
            "false",
            "Do not detach by force volumes that could not be unmounted in time.",
            "AttachDetachController.disableForceDetachOnTimeout",
        )
    )
