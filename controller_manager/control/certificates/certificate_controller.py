"""What the three controllers of signing requests share (certificate_controller.go).

The role of their service account, conditions of requests, and delays.
"""

from typing import Final

from controller_manager.api.authorization.v1 import SUBJECT_ACCESS_REVIEWS
from controller_manager.api.certificates.v1 import (
    APPROVED,
    DENIED,
    FAILED,
    KUBELET_CLIENT,
    SIGNER_NAMES,
    SIGNING_REQUESTS,
    CertificateSigningRequest,
)
from controller_manager.api.conditions import find_condition
from controller_manager.runtime.permissions import RECORD_EVENTS, Permission, allow
from controller_manager.workqueue.ratelimiters import ExponentialBackoff

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


def is_approved(request: CertificateSigningRequest) -> bool:
    """Tell whether a request is approved and not denied."""
    return _has(request, APPROVED) and not _has(request, DENIED)


def is_decided(request: CertificateSigningRequest) -> bool:
    """Tell whether a request is approved or denied."""
    return _has(request, APPROVED) or _has(request, DENIED)


def has_failed(request: CertificateSigningRequest) -> bool:
    """Tell whether a signer has refused a request."""
    return any(
        each.type == FAILED and each.status in ("", "True")
        for each in request.status.conditions or ()
    )


def _has(request: CertificateSigningRequest, kind: str) -> bool:
    return find_condition(request.status.conditions, kind) is not None


_FIRST: Final = 0.2
_LONGEST_REFUSAL: Final = 1000.0


def request_backoff() -> ExponentialBackoff:
    """Return delays of 0.2 s, 0.4 s, 0.8 s … and two minutes at most.

    Upstream waits up to 1,000 s.
    """
    return ExponentialBackoff(_FIRST)


def refusal_backoff() -> ExponentialBackoff:
    """Return delays of 0.2 s, 0.4 s, 0.8 s … and 1,000 s at most, as upstream.

    A request that its user may not make stays until the cleaner deletes it after a day.
    """
    return ExponentialBackoff(_FIRST, _LONGEST_REFUSAL)
