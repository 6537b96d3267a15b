"""The flags of the mirroring controller."""

from controller_manager.options.checks import between
from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import Flag

_PREFIX = "EndpointSliceMirroringController.Mirroring"


class MirroringOptions(ControllerOptions):
    """The number of concurrent syncs, their delay, and the limit of addresses."""

    concurrent_syncs: int = option(
        Flag(
            "mirroring-concurrent-service-endpoint-syncs",
            "int32",
            "5",
            "The number of services' mirrored endpoint slices that are allowed to sync "
            "concurrently. Larger number = more responsive, but more CPU (and network) "
            "load.",
            f"{_PREFIX}ConcurrentServiceEndpointSyncs",
            check=between(1, 50),
        )
    )
    batch_period: float = option(
        Flag(
            "mirroring-endpointslice-updates-batch-period",
            "duration",
            "0s",
            "The time for which changes of slices are collected before they are "
            "mirrored again.",
            f"{_PREFIX}EndpointUpdatesBatchPeriod",
        )
    )
    max_endpoints_per_subset: int = option(
        Flag(
            "mirroring-max-endpoints-per-subset",
            "int32",
            "1000",
            "The largest number of endpoints of a subset that are mirrored.",
            f"{_PREFIX}MaxEndpointsPerSubset",
            check=between(1, 1000),
        )
    )
