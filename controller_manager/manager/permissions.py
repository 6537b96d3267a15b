"""The permissions that the manager itself needs, with any selection of controllers.

``config/base/rbac.yaml`` has the same rules as a manifest; a test compares them. The
permissions of a controller are in its descriptor.
"""

from typing import Final

from controller_manager.api.authentication.v1 import TOKEN_REVIEWS
from controller_manager.api.authorization.v1 import SUBJECT_ACCESS_REVIEWS
from controller_manager.api.core.v1 import EVENTS, SERVICE_ACCOUNTS
from controller_manager.runtime.permissions import allow, allow_everywhere

MANAGER_PERMISSIONS: Final = (
    # Informers.
    allow_everywhere("list", "watch"),
    # --use-service-account-credentials.
    allow(SERVICE_ACCOUNTS, "get", "create"),
    allow(SERVICE_ACCOUNTS, "create", subresource="token"),
    # To authenticate and authorize requests for /metrics.
    allow(TOKEN_REVIEWS, "create"),
    allow(SUBJECT_ACCESS_REVIEWS, "create"),
    # The event about a new leader.
    allow(EVENTS, "create", "patch", "update"),
)
"""All but the permission for its lease; that one allows a single lease by name."""
