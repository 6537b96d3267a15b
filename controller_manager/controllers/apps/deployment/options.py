"""The flags of the deployment controller."""

from controller_manager.options.controller_options import ControllerOptions, option
from controller_manager.options.flag import concurrency


class DeploymentOptions(ControllerOptions):
    """The number of deployments that are synced at the same time."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-deployment-syncs",
            5,
            "DeploymentController.ConcurrentDeploymentSyncs",
            "deployments",
        )
    )
