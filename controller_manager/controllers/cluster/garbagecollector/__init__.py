"""garbage-collector-controller: deletes objects whose owners are all gone."""

from controller_manager.options.config import Config
from controller_manager.options.controller_options import (
    ControllerOptions,
    concurrency,
    option,
)
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow_everywhere


class GarbageCollectorOptions(ControllerOptions):
    """The switch of the garbage collector, and the number of workers of each queue."""

    enabled: bool = option(
        "enable-garbage-collector",
        "bool",
        "true",
        "Enable the garbage collector; must agree with the API server's flag.",
        "GarbageCollectorController.EnableGarbageCollector",
    )
    concurrent_syncs: int = concurrency(
        "concurrent-gc-syncs",
        20,
        "GarbageCollectorController.ConcurrentGCSyncs",
        "garbage collector workers",
    )


def _lacks(config: Config, _: str) -> str:
    is_enabled = config.of(GarbageCollectorOptions).enabled
    return "" if is_enabled else "--enable-garbage-collector=true"


CONTROLLER = Descriptor(
    name="garbage-collector-controller",
    aliases=("garbagecollector",),
    load=".controller:init_garbage_collector_controller",
    options=GarbageCollectorOptions,
    lacks=_lacks,
    permissions=(
        allow_everywhere("delete", "get", "list", "patch", "update", "watch"),
        *RECORD_EVENTS,
    ),
    metrics=("garbagecollector_controller_resources_sync_error_total",),
    service_account="generic-garbage-collector",
    # Each deletion takes two requests: one to read, one to delete.
    qps_factor=2,
)
