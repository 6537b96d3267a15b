"""garbage-collector-controller: deletes what has lost all its owners.

``graph`` knows of every object whose it is (pure bookkeeping, fed by events);
``monitors`` keeps that true for every resource that discovery lists; ``actions``
reads and writes single objects; ``controller`` decides from both what goes, and
``dump`` draws the graph. What the graph believes only says where to look: no
object is deleted unless the API server itself has just said that its owners are
gone.
"""

from controller_manager.controllers.cluster.garbagecollector.options import (
    GarbageCollectorOptions,
)
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow_everywhere

CONTROLLER = Descriptor(
    name="garbage-collector-controller",
    aliases=("garbagecollector",),
    load=".controller:init_garbage_collector_controller",
    options=GarbageCollectorOptions,
    permissions=(
        allow_everywhere("delete", "get", "list", "patch", "update", "watch"),
        *RECORD_EVENTS,
    ),
    metrics=("garbagecollector_controller_resources_sync_error_total",),
    service_account="generic-garbage-collector",
    # Each deletion takes two requests: one to look, one to delete.
    qps_factor=2,
)
