"""The flags of the endpoint slice controller."""

from msgspec.structs import replace

from controller_manager.options.checks import between
from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import Flag, concurrency


class EndpointSliceOptions(ControllerOptions):
    """The number of concurrent syncs, their delay, and the size of slices."""

    concurrent_syncs: int = option(
        replace(
            concurrency(
                "concurrent-service-endpoint-syncs",
                5,
                "EndpointSliceController.ConcurrentServiceEndpointSyncs",
                "services' endpoint slices",
            ),
            check=between(1, 50),
        )
    )
    updates_batch_period: float = option(
        Flag(
            "endpointslice-updates-batch-period",
            "duration",
            "0s",
            "The time for which changes of pods are collected before slices are "
            "updated.",
            "EndpointSliceController.EndpointUpdatesBatchPeriod",
        )
    )
    max_endpoints_per_slice: int = option(
        Flag(
            "max-endpoints-per-slice",
            "int32",
            "100",
            "The largest number of endpoints in a slice.",
            "EndpointSliceController.MaxEndpointsPerSlice",
            check=between(1, 1000),
        )
    )
