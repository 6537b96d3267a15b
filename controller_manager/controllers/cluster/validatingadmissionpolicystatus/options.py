"""The flag of the controller of policies' status."""

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import concurrency


class PolicyStatusOptions(ControllerOptions):
    """How many policies are checked at a time."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-validating-admission-policy-status-syncs",
            5,
            "ValidatingAdmissionPolicyStatusController.ConcurrentPolicySyncs",
            "admission policies",
        )
    )
