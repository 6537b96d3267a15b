"""garbage-collector-controller: deletes what has lost all its owners.

``graph`` knows the owners and dependents of every object (no I/O, fed by watch
events); ``monitors`` watches every resource that discovery lists; ``actions`` reads
and writes single objects; ``controller`` decides what is deleted; ``dump`` draws the
graph. The graph only says which objects to check: no object is deleted unless a
quorum read has just shown that its owners are gone.
"""

from controller_manager.controllers.cluster.garbagecollector.options import (
    GarbageCollectorOptions,
)
from controller_manager.options.config import Config
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow_everywhere


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
