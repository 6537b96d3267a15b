"""Conditions of certificate signing requests (certificate_controller_utils.go)."""

from controller_manager.api.certificates.v1 import (
    APPROVED,
    DENIED,
    FAILED,
    CertificateSigningRequest,
)
from controller_manager.api.conditions import find_condition


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
