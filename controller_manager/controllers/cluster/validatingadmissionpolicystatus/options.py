"""The flag of the controller of policies' status."""

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import concurrency


class PolicyStatusOptions(ControllerOptions):
    """The number of workers."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-validating-admission-policy-status-syncs",
            5,
            "ValidatingAdmissionPolicyStatusController.ConcurrentPolicySyncs",
            "admission policies",
        )
    )
