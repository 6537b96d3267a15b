"""device-taint-eviction-controller: evicts pods that use tainted devices."""

from typing import Final

from controller_manager.api.core.v1 import PODS
from controller_manager.api.dynamicresources.v1 import (
    DEVICE_CLASSES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from controller_manager.api.dynamicresources.v1beta2 import DEVICE_TAINT_RULES
from controller_manager.control.gates import OBSERVED_GENERATION
from controller_manager.informers.reads import Reads
from controller_manager.options.controller_options import ControllerOptions, concurrency
from controller_manager.options.gates import Gate
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

TAINTS: Final = Gate("DRADeviceTaints")
"""Drivers taint devices, and pods that use them are evicted."""

TAINT_RULES: Final = Gate(
    "DRADeviceTaintRules", default=False, depends_on=(TAINTS.name,)
)
"""Administrators taint devices by rules."""


class DeviceTaintEvictionOptions(ControllerOptions):
    """The number of concurrent syncs of pods and rules."""

    concurrent_syncs: int = concurrency(
        "concurrent-device-taint-eviction-syncs",
        8,
        "DeviceTaintEvictionController.ConcurrentSyncs",
        "operations",
    )


CONTROLLER = Descriptor(
    name="device-taint-eviction-controller",
    load=".controller:init_device_taint_eviction_controller",
    requires=(PODS, RESOURCE_CLAIMS, RESOURCE_SLICES),
    evicts_as="DeletionByDeviceTaintManager",
    gated_requires=((TAINT_RULES, (DEVICE_TAINT_RULES,)),),
    reads=(
        Reads(
            PODS,
            *("metadata.generation", "spec.nodeName", "spec.resourceClaims"),
            *("status.resourceClaimStatuses", "status.conditions[DisruptionTarget]"),
        ),
        Reads(RESOURCE_CLAIMS, "status"),
        Reads(RESOURCE_SLICES, *("spec.driver", "spec.pool", "spec.devices")),
    ),
    options=DeviceTaintEvictionOptions,
    gates=(TAINT_RULES, OBSERVED_GENERATION),
    requires_gates=(TAINTS,),
    permissions=(
        allow(PODS, "delete", "get", "list", "watch"),
        allow(PODS, "patch", "update", subresource="status"),
        allow(RESOURCE_CLAIMS, "get", "list", "watch"),
        allow(RESOURCE_SLICES, "get", "list", "watch"),
        allow(DEVICE_CLASSES, "get", "list", "watch"),
        *RECORD_EVENTS,
    ),
    gated_permissions=(
        (
            TAINT_RULES,
            (
                allow(DEVICE_TAINT_RULES, "get", "list", "watch"),
                allow(DEVICE_TAINT_RULES, "patch", "update", subresource="status"),
            ),
        ),
    ),
    metrics=(
        "device_taint_eviction_controller_pod_deletion_duration_seconds",
        "device_taint_eviction_controller_pod_deletions_total",
    ),
)
