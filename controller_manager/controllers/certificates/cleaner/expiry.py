"""When a request is to be deleted (cleaner.go). Pure functions."""

import base64
import binascii
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509

from controller_manager.api.certificates.v1 import (
    APPROVED,
    DENIED,
    FAILED,
    CertificateSigningRequest,
)
from controller_manager.api.times import parse_time
from controller_manager.control.certificates.pem import blocks

_ANSWERED: Final = timedelta(hours=1)
"""So long a request stays after it was approved and signed, denied, or failed."""

_PENDING: Final = timedelta(hours=24)
"""So long a request without any condition stays."""


def expires_at(request: CertificateSigningRequest) -> datetime | None:
    """Return when a request is to be deleted, `None` if it stays as it is.

    A request that is approved stays until it has its certificate.
    """
    return min(_ends(request), default=None)


def _ends(request: CertificateSigningRequest) -> Iterator[datetime]:
    conditions = request.status.conditions or ()
    created = request.metadata.creation_timestamp
    if not conditions and created:
        yield parse_time(created) + _PENDING
    encoded = request.status.certificate
    for condition in conditions:
        is_answer = condition.type in (DENIED, FAILED) or (
            condition.type == APPROVED and encoded
        )
        if is_answer and condition.last_update_time:
            yield parse_time(condition.last_update_time) + _ANSWERED
        if condition.type == APPROVED and encoded:
            yield from _ends_of_certificate(encoded)


def _ends_of_certificate(encoded: str) -> Iterator[datetime]:
    """Yield when the first certificate of the field ends, if it can be read."""
    try:
        block = next(blocks(base64.b64decode(encoded)), None)
        if block is not None:
            yield x509.load_der_x509_certificate(block.content).not_valid_after_utc
    except (binascii.Error, ValueError):
        return
