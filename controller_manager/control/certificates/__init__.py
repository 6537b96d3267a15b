"""What the three controllers of signing requests share (certificate_controller.go).

The role of their service account, and their delays.
"""

from typing import Final

from controller_manager.api.authorization.v1 import SUBJECT_ACCESS_REVIEWS
from controller_manager.api.certificates import v1
from controller_manager.runtime.permissions import RECORD_EVENTS, Permission, allow
from controller_manager.workqueue.ratelimiters import ExponentialBackoff

SERVICE_ACCOUNT: Final = "certificate-controller"

PERMISSIONS: Final = (
    allow(v1.SIGNING_REQUESTS, "delete", "get", "list", "watch"),
    allow(v1.SIGNING_REQUESTS, "update", subresource="approval"),
    allow(v1.SIGNING_REQUESTS, "update", subresource="status"),
    Permission(
        v1.SIGNING_REQUESTS.group, "signers", ("approve",), (v1.KUBELET_CLIENT,)
    ),
    Permission(v1.SIGNING_REQUESTS.group, "signers", ("sign",), v1.SIGNER_NAMES),
    allow(SUBJECT_ACCESS_REVIEWS, "create"),
    *RECORD_EVENTS,
)
"""The permissions of upstream's bootstrap policy."""


FIRST_DELAY: Final = 0.2
"""Seconds before a failed request is tried again; the delay doubles."""


def request_backoff() -> ExponentialBackoff:
    """Return delays of 0.2 s, 0.4 s, 0.8 s … and two minutes at most.

    Upstream waits up to 1,000 s.
    """
    return ExponentialBackoff(FIRST_DELAY)
