"""validatingadmissionpolicy-status-controller: checks the expressions of policies."""

from controller_manager.api.admissionregistration.v1 import (
    VALIDATING_ADMISSION_POLICIES,
)
from controller_manager.informers.reads import Reads
from controller_manager.runtime.descriptor import Descriptor
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

from . import options

CONTROLLER = Descriptor(
    name="validatingadmissionpolicy-status-controller",
    load=".reconciler:PolicyStatusReconciler",
    requires=(VALIDATING_ADMISSION_POLICIES,),
    options=options.PolicyStatusOptions,
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
