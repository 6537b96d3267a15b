"""The flags of the attach-detach controller, and the settings for its decisions."""

from msgspec import Struct

from controller_manager.options.checks import at_least_a_second
from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import Flag


class AttachDetachOptions(ControllerOptions):
    """The flags about lost attachments and about detaching by force."""

    reconcile_sync_period: float = option(
        Flag(
            "attach-detach-reconcile-sync-period",
            "duration",
            "1m0s",
            "Time until a volume that a node lists as attached, and whose attachment "
            "is lost, is attached again.",
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

    @property
    def settings(self) -> "Settings":
        """The settings for decisions."""
        verifies = not self.disable_reconcile_sync
        return Settings(
            verify_after=self.reconcile_sync_period if verifies else None,
            forces=not self.disable_force_detach,
        )


class Settings(Struct, frozen=True):
    """The settings for decisions.

    - `verify_after`: the seconds after which a lost attachment is made again, `None`
      for never.
    - `forces`: volumes are detached by force after a time.
    """

    verify_after: float | None = 60.0
    forces: bool = True
