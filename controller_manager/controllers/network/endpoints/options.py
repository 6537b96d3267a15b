"""The flags of the endpoints controller."""

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import Flag, concurrency


class EndpointsOptions(ControllerOptions):
    """How many services are synced at a time, and how long changes are collected."""

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
            "How long to collect changes of pods before endpoints are updated.",
            "EndpointController.EndpointUpdatesBatchPeriod",
        )
    )
