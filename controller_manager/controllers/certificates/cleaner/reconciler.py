"""Deletes requests some time after they were answered (cleaner.go)."""

from contextlib import suppress

from controller_manager.api.certificates.v1 import (
    SIGNING_REQUESTS,
    CertificateSigningRequest,
)
from controller_manager.api.meta import is_deleting
from controller_manager.client.client import DeleteOptions
from controller_manager.client.errors import NotFound
from controller_manager.controllers.certificates.cleaner.expiry import expires_at
from controller_manager.runtime.outcome import DONE, Done, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For


class CleaningReconciler(Reconciler[CertificateSigningRequest]):
    """Deletes each request at its time; upstream looks at all of them once an hour.

    Times are the API server's, as those in the requests are.
    """

    watches = (For(SIGNING_REQUESTS),)
    queue_name = "csrcleaner"

    async def reconcile(self, request: CertificateSigningRequest) -> Outcome:
        """Delete the request if its time has come, else requeue it for then."""
        due = expires_at(request)
        if due is None or is_deleting(request):
            return DONE
        left = (due - self.context.server_clock.now()).total_seconds()
        if left > 0:
            return Done(left)
        # The version is a precondition: somebody may just have approved the request.
        options = DeleteOptions(
            uid=request.metadata.uid, resource_version=request.metadata.resource_version
        )
        with suppress(NotFound):
            await self.client.delete(
                SIGNING_REQUESTS, "", request.metadata.name, options
            )
        return DONE
