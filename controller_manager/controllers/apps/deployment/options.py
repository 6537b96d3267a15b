"""The flags of the deployment controller."""

from dataclasses import dataclass

from controller_manager.options.controller_options import option
from controller_manager.options.flag import concurrency


@dataclass(frozen=True, slots=True)
class DeploymentOptions:
    """How many deployments are synced at a time."""

    concurrent_syncs: int = option(
        concurrency(
            "concurrent-deployment-syncs",
            5,
            "DeploymentController.ConcurrentDeploymentSyncs",
            "deployments",
        )
    )
