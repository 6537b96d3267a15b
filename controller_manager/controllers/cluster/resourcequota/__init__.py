"""resourcequota-controller: writes the usage of each quota into its status."""

from controller_manager.api.core.claims import CLAIMS
from controller_manager.api.core.resources import RESOURCE_QUOTAS
from controller_manager.api.core.services import SERVICES
from controller_manager.api.core.v1 import PODS
from controller_manager.api.dynamicresources.v1 import (
    DEVICE_CLASSES,
    EXTENDED_RESOURCE_CLAIM,
    RESOURCE_CLAIMS,
)
from controller_manager.control.gates import (
    EXTENDED_RESOURCES,
    POD_LEVEL_RESIZE,
    POD_LEVEL_RESOURCES,
)
from controller_manager.informers.reads import Reads
from controller_manager.options.checks import not_negative
from controller_manager.options.controller_options import (
    ControllerOptions,
    concurrency,
    option,
)
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import (
    RECORD_EVENTS,
    allow,
    allow_everywhere,
)


class ResourceQuotaOptions(ControllerOptions):
    """The number of workers, and the period of the recount of all quotas."""

    concurrent_syncs: int = concurrency(
        "concurrent-resource-quota-syncs",
        5,
        "ResourceQuotaController.ConcurrentResourceQuotaSyncs",
        "resource quotas",
    )
    sync_period: float = option(
        "resource-quota-sync-period",
        "duration",
        "5m0s",
        "The period for syncing the usage of quotas.",
        "ResourceQuotaController.ResourceQuotaSyncPeriod",
        check=not_negative,
    )


CONTROLLER = Descriptor(
    name="resourcequota-controller",
    aliases=("resourcequota",),
    load=".controller:init_resource_quota_controller",
    requires=(RESOURCE_QUOTAS, PODS, SERVICES, CLAIMS),
    reads=(
        Reads(
            PODS,
            "metadata.deletionGracePeriodSeconds",
            *("spec.activeDeadlineSeconds", "spec.priorityClassName", "spec.overhead"),
            *("spec.affinity.podAffinity", "spec.affinity.podAntiAffinity"),
            *("spec.resources", "spec.containers.name", "spec.containers.resources"),
            *("spec.initContainers.name", "spec.initContainers.resources"),
            *("spec.initContainers.restartPolicy", "status.phase", "status.qosClass"),
            *(
                "status.extendedResourceClaimStatus",
                "status.conditions[PodResizePending]",
            ),
            *("status.containerStatuses.name", "status.containerStatuses.resources"),
            "status.containerStatuses.allocatedResources",
            "status.initContainerStatuses.name",
            "status.initContainerStatuses.resources",
            "status.initContainerStatuses.allocatedResources",
        ),
        Reads(
            SERVICES,
            *("spec.type", "spec.ports.nodePort", "spec.allocateLoadBalancerNodePorts"),
        ),
        Reads(CLAIMS),
        Reads(
            RESOURCE_CLAIMS,
            f"metadata.annotations[{EXTENDED_RESOURCE_CLAIM}]",
            "spec",
        ),
        Reads(DEVICE_CLASSES, "spec"),
    ),
    options=ResourceQuotaOptions,
    gates=(EXTENDED_RESOURCES, POD_LEVEL_RESOURCES, POD_LEVEL_RESIZE),
    permissions=(
        allow_everywhere("list", "watch"),
        allow(RESOURCE_QUOTAS, "update", subresource="status"),
        *RECORD_EVENTS,
    ),
)
