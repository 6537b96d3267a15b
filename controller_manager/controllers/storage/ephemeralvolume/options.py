"""The flag of the controller of ephemeral volumes."""

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import concurrency


class EphemeralVolumeOptions(ControllerOptions):
    """The number of pods that are synced at a time."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-ephemeralvolume-syncs",
            5,
            "EphemeralVolumeController.ConcurrentEphemeralVolumeSyncs",
            "ephemeral volumes",
        )
    )
