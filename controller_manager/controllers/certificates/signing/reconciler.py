"""Signs approved requests (signer.go and certificate_controller.go)."""

import base64
from contextlib import suppress
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from controller_manager.api.certificates.v1 import (
    FAILED,
    SIGNING_REQUESTS,
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from controller_manager.api.times import format_time
from controller_manager.client.errors import NotFound
from controller_manager.control.certificates.conditions import (
    has_failed,
    is_approved,
)
from controller_manager.control.certificates.request import (
    InvalidRequest,
    ParsedRequest,
    parse_request,
)
from controller_manager.control.certificates.retries import request_backoff
from controller_manager.controllers.certificates.signing.authority import (
    AuthoritySource,
)
from controller_manager.controllers.certificates.signing.certificate import (
    CannotSign,
    issue,
    lifetime,
)
from controller_manager.controllers.certificates.signing.complaints import complaint_of
from controller_manager.controllers.certificates.signing.options import SigningOptions
from controller_manager.controllers.certificates.signing.usages import UnknownUsages
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome, SyncError
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For
from controller_manager.workqueue.ratelimiters import Backoff

REASON: Final = "SignerValidationFailure"


def _waits_for_signature(request: CertificateSigningRequest) -> bool:
    """Tell whether a request is approved, and has neither failed nor a certificate."""
    return (
        not request.status.certificate
        and is_approved(request)
        and not has_failed(request)
    )


class SigningReconciler(Reconciler[CertificateSigningRequest]):
    """Signs approved requests for its signers, or says why it refuses.

    Times are the API server's: with the clock of a machine that is wrong, all
    certificates would be useless.
    """

    watches = (For(SIGNING_REQUESTS, when=_waits_for_signature),)
    queue_name = "certificate"
    workers = 5

    def __init__(self, context: ControllerContext) -> None:
        """Take the context, and read the authorities; raises UnusableAuthority."""
        super().__init__(context)
        options = context.config.of(SigningOptions)
        self._longest = timedelta(seconds=options.duration)
        files = options.authorities()
        # Signers of the same files share an authority.
        sources = {
            each: AuthoritySource(each, context.logger) for each in files.values()
        }
        self._authorities = {name: sources[each] for name, each in files.items()}

    def backoff(self) -> Backoff:
        """Return the delays between retries."""
        return request_backoff()

    async def reconcile(self, request: CertificateSigningRequest) -> Outcome:
        """Write the certificate, or the condition Failed.

        The version of the request is a precondition of the write, so that no request
        gets two certificates.
        """
        source = self._authorities.get(request.spec.signer_name)
        if source is None or not _waits_for_signature(request):
            return DONE
        status = self._decided(request, source)
        with suppress(NotFound):
            await self.client.update(
                SIGNING_REQUESTS, replace(request, status=status), "status"
            )
        return DONE

    def _decided(
        self, request: CertificateSigningRequest, source: AuthoritySource
    ) -> CertificateSigningRequestStatus:
        """Return the status with a certificate or a failure; raises SyncError."""
        name, spec = request.metadata.name, request.spec
        try:
            parsed = parse_request(spec.request)
        except InvalidRequest as error:
            msg = f"unable to parse csr {name!r}: {error}"
            raise SyncError(msg) from error
        complaint = complaint_of(spec.signer_name, parsed, spec.usages or ())
        if complaint is not None:
            return self._failed(request, complaint)
        try:
            return self._signed(request, parsed, source)
        except (CannotSign, UnknownUsages) as error:
            msg = f"error auto signing csr {name!r}: {error}"
            raise SyncError(msg) from error

    def _signed(
        self,
        request: CertificateSigningRequest,
        parsed: ParsedRequest,
        source: AuthoritySource,
    ) -> CertificateSigningRequestStatus:
        certificate = issue(
            source.current(),
            parsed,
            request.spec.usages or (),
            lifetime(request.spec.expiration_seconds, self._longest),
            self.context.server_clock.now(),
        )
        encoded = base64.b64encode(certificate).decode()
        return replace(request.status, certificate=encoded)

    def _failed(
        self, request: CertificateSigningRequest, complaint: str
    ) -> CertificateSigningRequestStatus:
        condition = CertificateSigningRequestCondition(
            type=FAILED,
            status="True",
            reason=REASON,
            message=complaint,
            last_update_time=format_time(self.context.server_clock.now()),
        )
        conditions = (*(request.status.conditions or ()), condition)
        return replace(request.status, conditions=conditions)
