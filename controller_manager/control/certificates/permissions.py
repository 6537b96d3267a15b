"""The role of the three controllers of requests; they share a service account."""

from typing import Final

from controller_manager.api.authorization.v1 import SUBJECT_ACCESS_REVIEWS
from controller_manager.api.certificates.v1 import (
    KUBELET_CLIENT,
    SIGNER_NAMES,
    SIGNING_REQUESTS,
)
from controller_manager.runtime.permissions import RECORD_EVENTS, Permission, allow

SERVICE_ACCOUNT: Final = "certificate-controller"

_SIGNERS: Final = "signers"

PERMISSIONS: Final = (
    allow(SIGNING_REQUESTS, "delete", "get", "list", "watch"),
    allow(SIGNING_REQUESTS, "update", subresource="approval"),
    allow(SIGNING_REQUESTS, "update", subresource="status"),
    Permission(SIGNING_REQUESTS.group, _SIGNERS, ("approve",), (KUBELET_CLIENT,)),
    Permission(SIGNING_REQUESTS.group, _SIGNERS, ("sign",), SIGNER_NAMES),
    allow(SUBJECT_ACCESS_REVIEWS, "create"),
    *RECORD_EVENTS,
)
"""The permissions of upstream's bootstrap policy."""
