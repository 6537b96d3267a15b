"""The service account that the controllers of nodes and of their taints share.

Upstream: ``system:controller:node-controller`` of the bootstrap policy.
"""

from typing import Final

from controller_manager.api.core.v1 import NODES, PODS
from controller_manager.runtime.permissions import RECORD_EVENTS, allow

SERVICE_ACCOUNT: Final = "node-controller"

PERMISSIONS: Final = (
    allow(NODES, "delete", "get", "list", "patch", "update", "watch"),
    allow(NODES, "patch", "update", subresource="status"),
    allow(PODS, "patch", "update", subresource="status"),
    allow(PODS, "delete", "get", "list", "watch"),
    *RECORD_EVENTS,
)
"""As upstream's bootstrap policy has them."""
