"""The flags of the endpoints controller."""

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import Flag, concurrency


class EndpointsOptions(ControllerOptions):
    """The number of concurrent syncs, and the time for which changes are collected."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-endpoint-syncs",
            5,
            "EndpointController.ConcurrentEndpointSyncs",
            "endpoints",
        )
    )
    batch_period: float = option(
        Flag(
            "endpoint-updates-batch-period",
            "duration",
            "0s",
            "The time for which changes of pods are collected before endpoints are "
            "updated.",
            "EndpointController.EndpointUpdatesBatchPeriod",
        )
    )
