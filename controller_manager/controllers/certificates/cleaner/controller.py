"""Deletes requests some time after they were answered (cleaner.go)."""

import base64
import binascii
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509

from controller_manager.api.certificates import v1
from controller_manager.api.meta import is_deleting
from controller_manager.api.scalars import parse_time
from controller_manager.client.rest.errors import NotFound
from controller_manager.control.certificates.pem import blocks
from controller_manager.runtime.outcome import DONE, Done, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For

_ANSWERED: Final = timedelta(hours=1)
"""The time that a request stays after it was signed, denied, or failed."""

_PENDING: Final = timedelta(hours=24)
"""The time that a request without any condition stays after its creation.

An approved request without a certificate stays as long after its approval.
"""


def expires_at(request: v1.CertificateSigningRequest) -> datetime | None:
    """Return the time at which a request is deleted, `None` if it stays."""
    return min(_ends(request), default=None)


def _ends(request: v1.CertificateSigningRequest) -> Iterator[datetime]:
    conditions = request.status.conditions or ()
    created = request.metadata.creation_timestamp
    if not conditions and created:
        yield parse_time(created) + _PENDING
    encoded = request.status.certificate
    stays = {
        v1.DENIED: _ANSWERED,
        v1.FAILED: _ANSWERED,
        v1.APPROVED: _ANSWERED if encoded else _PENDING,
    }
    for condition in conditions:
        since = condition.last_update_time
        if since and condition.type in stays:
            yield parse_time(since) + stays[condition.type]
        if condition.type == v1.APPROVED and encoded:
            yield from _ends_of_certificate(encoded)


def _ends_of_certificate(encoded: str) -> Iterator[datetime]:
    try:
        block = next(blocks(base64.b64decode(encoded)), None)
        if block is not None:
            yield x509.load_der_x509_certificate(block.content).not_valid_after_utc
    except (binascii.Error, ValueError):
        return


class CleaningReconciler(Reconciler[v1.CertificateSigningRequest]):
    """Deletes each request at its time; upstream checks all requests once an hour.

    The clock is the API server's, which also wrote the times in the requests.
    """

    watches = (For(v1.SIGNING_REQUESTS),)
    queue_name = "csrcleaner"

    async def reconcile(self, request: v1.CertificateSigningRequest) -> Outcome:
        """Delete the request if its time has come, else requeue it for that time."""
        due = expires_at(request)
        if due is None or is_deleting(request):
            return DONE
        left = (due - self.context.server_clock.now()).total_seconds()
        if left > 0:
            return Done(left)
        # The version is a precondition: a user may have just approved the request.
        with suppress(NotFound):
            await self.client.delete_exactly(
                v1.SIGNING_REQUESTS, request, same_version=True
            )
        return DONE
