"""Deletes old requests of pods (pcrcleaner.go)."""

from contextlib import suppress
from datetime import timedelta
from typing import Final

from controller_manager.api.certificates.v1beta1 import POD_CERTIFICATE_REQUEST_METADATA
from controller_manager.api.meta import PartialObject, is_deleting
from controller_manager.api.scalars import parse_time
from controller_manager.client.rest.errors import NotFound
from controller_manager.runtime.outcome import DONE, Done, Outcome
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For

_AGE: Final = timedelta(minutes=15)
"""The age at which a request is deleted; its kubelet has stopped waiting by then."""


class PodCertificateRequestReconciler(Reconciler[PartialObject]):
    """Deletes each request at its time; upstream checks all every five minutes."""

    watches = (For(POD_CERTIFICATE_REQUEST_METADATA),)
    queue_name = "podcertificaterequestcleaner"

    async def reconcile(self, request: PartialObject) -> Outcome:
        """Delete the request if it is old enough, else requeue it for that time."""
        created = request.metadata.creation_timestamp
        if is_deleting(request) or not created:
            return DONE
        due = parse_time(created) + _AGE
        left = (due - self.context.server_clock.now()).total_seconds()
        if left > 0:
            return Done(left)
        with suppress(NotFound):
            await self.client.delete_exactly(POD_CERTIFICATE_REQUEST_METADATA, request)
        return DONE
