"""What the manager itself must be allowed, whatever controllers it runs.

``config/base/rbac.yaml`` says the same as a manifest; a test holds them equal. What
a controller must be allowed stands in its descriptor.
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
    # Who may read /metrics.
    allow(TOKEN_REVIEWS, "create"),
    allow(SUBJECT_ACCESS_REVIEWS, "create"),
    # The event about a new leader.
    allow(EVENTS, "create", "patch", "update"),
)
"""Its lease aside, of which only the one that it is told is allowed by name."""
