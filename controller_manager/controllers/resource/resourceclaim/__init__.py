"""resourceclaim-controller: creates and reserves claims to devices for pods."""

from typing import Final

from controller_manager.api.core.v1 import PODS
from controller_manager.api.dynamicresources.v1 import (
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
)
from controller_manager.api.scheduling.v1alpha2 import POD_GROUPS
from controller_manager.informers.reads import Reads
from controller_manager.options.controller_options import ControllerOptions, concurrency
from controller_manager.options.gates import Gate
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

DYNAMIC_ALLOCATION: Final = Gate("DynamicResourceAllocation", locked=True)
"""An API server has claims to devices."""

ADMIN_ACCESS: Final = Gate("DRAAdminAccess", locked=True)
"""Claims may request devices that other claims use, in namespaces that allow it."""

WORKLOAD_CLAIMS: Final = Gate("DRAWorkloadResourceClaims", "ALPHA", default=False)
"""A group of pods may have claims that its pods share."""

GRANULAR_AUTHORIZATION: Final = Gate("DRAResourceClaimGranularStatusAuthorization")
"""An API server allows the reservation of a claim to who may update its binding."""


class ResourceClaimOptions(ControllerOptions):
    """The number of concurrent syncs of pods and claims."""

    concurrent_syncs: int = concurrency(
        "concurrent-resourceclaim-syncs",
        50,
        "ResourceClaimController.ConcurrentSyncs",
        "resource claims",
    )


CONTROLLER = Descriptor(
    name="resourceclaim-controller",
    aliases=("resource-claim-controller",),
    load=".controller:init_resource_claim_controller",
    requires=(PODS, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES),
    makes=((RESOURCE_CLAIMS, "Pod"),),
    gated_requires=((WORKLOAD_CLAIMS, (POD_GROUPS,)),),
    reads=(
        Reads(
            PODS,
            *("spec.nodeName", "spec.resourceClaims", "spec.schedulingGroup"),
            *("status.phase", "status.resourceClaimStatuses"),
            "status.extendedResourceClaimStatus",
        ),
        Reads(
            RESOURCE_CLAIMS,
            *("metadata.annotations", "status"),
            "spec.devices.requests.exactly.adminAccess",
        ),
    ),
    options=ResourceClaimOptions,
    gates=(WORKLOAD_CLAIMS, ADMIN_ACCESS, GRANULAR_AUTHORIZATION),
    requires_gates=(DYNAMIC_ALLOCATION,),
    permissions=(
        allow(PODS, "get", "list", "watch"),
        allow(PODS, "update", subresource="finalizers"),
        allow(PODS, "patch", "update", subresource="status"),
        allow(
            RESOURCE_CLAIMS,
            *("create", "delete", "get", "list", "patch", "update", "watch"),
        ),
        allow(RESOURCE_CLAIMS, "patch", "update", subresource="status"),
        *RECORD_EVENTS,
    ),
    gated_permissions=(
        (
            WORKLOAD_CLAIMS,
            (
                allow(POD_GROUPS, "get", "list", "watch"),
                allow(POD_GROUPS, "patch", "update", subresource="status"),
            ),
        ),
        (
            GRANULAR_AUTHORIZATION,
            (allow(RESOURCE_CLAIMS, "patch", "update", subresource="binding"),),
        ),
    ),
    metrics=(
        "resourceclaim_controller_creates_total",
        "resourceclaim_controller_resource_claims",
    ),
    component="resource_claim",
    service_account="resource-claim-controller",
)
