"""validatingadmissionpolicy-status-controller: checks the expressions of policies."""

from controller_manager.api.admissionregistration.v1 import (
    VALIDATING_ADMISSION_POLICIES,
)
from controller_manager.informers.reads import Reads
from controller_manager.options.controller_options import ControllerOptions, concurrency
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow


class PolicyStatusOptions(ControllerOptions):
    """The number of workers."""

    concurrent_syncs: int = concurrency(
        "concurrent-validating-admission-policy-status-syncs",
        5,
        "ValidatingAdmissionPolicyStatusController.ConcurrentPolicySyncs",
        "admission policies",
    )


CONTROLLER = Descriptor(
    name="validatingadmissionpolicy-status-controller",
    load=".controller:PolicyStatusReconciler",
    requires=(VALIDATING_ADMISSION_POLICIES,),
    options=PolicyStatusOptions,
    reads=(
        Reads(
            VALIDATING_ADMISSION_POLICIES,
            "metadata.generation",
            "spec",
            "status.observedGeneration",
        ),
    ),
    permissions=(
        allow(VALIDATING_ADMISSION_POLICIES, "get", "list", "watch"),
        allow(
            VALIDATING_ADMISSION_POLICIES,
            *("get", "patch", "update"),
            subresource="status",
        ),
        *RECORD_EVENTS,
    ),
)
