"""Signs approved requests (signer.go and certificate_controller.go)."""

import base64
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

from cryptography.hazmat.primitives.asymmetric import rsa
from msgspec.structs import replace

from controller_manager.api.certificates.v1 import (
    FAILED,
    KUBE_APISERVER_CLIENT,
    KUBELET_CLIENT,
    KUBELET_SERVING,
    SIGNING_REQUESTS,
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
    CertificateSigningRequestStatus,
)
from controller_manager.api.times import format_time
from controller_manager.client.errors import NotFound
from controller_manager.control.certificates.backoff import request_backoff
from controller_manager.control.certificates.conditions import has_failed, is_approved
from controller_manager.control.certificates.kubelet import (
    validate_kubelet_client,
    validate_kubelet_serving,
)
from controller_manager.control.certificates.request import (
    InvalidRequest,
    ParsedRequest,
    parse_request,
)
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome, SyncError
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For
from controller_manager.workqueue.ratelimiters import Backoff

from .authority import AuthoritySource
from .certificate import CannotSign, issue, lifetime
from .options import SigningOptions
from .usages import UnknownUsages

_RSA_BITS: Final = 2048

_CLIENT_AUTH: Final = "client auth"
_CLIENT_USAGES: Final = ("digital signature", "key encipherment", _CLIENT_AUTH)


def refusal_reason(
    signer: str, parsed: ParsedRequest, usages: Sequence[str]
) -> str | None:
    """Return why a signer refuses a request, in upstream's words, or `None`.

    All signers refuse short RSA keys; kubernetes.io/legacy-unknown has no other rule.
    That is stricter than upstream, which signs keys of 1,024 bits.
    """
    key = parsed.request.public_key()
    if isinstance(key, rsa.RSAPublicKey) and key.key_size < _RSA_BITS:
        return f"the RSA key has {key.key_size} bits, at least {_RSA_BITS} are required"
    if signer == KUBE_APISERVER_CLIENT:
        return _validate_client(usages)
    if signer == KUBELET_CLIENT:
        return validate_kubelet_client(parsed, usages)
    if signer == KUBELET_SERVING:
        return validate_kubelet_serving(parsed, usages)
    return None


def _validate_client(usages: Sequence[str]) -> str | None:
    for usage in usages:
        if usage not in _CLIENT_USAGES:
            return f"invalid usage for client certificate: {usage}"
    if _CLIENT_AUTH not in usages:
        return f"missing required usage for client certificate: {_CLIENT_AUTH}"
    return None


REASON: Final = "SignerValidationFailure"


def _waits_for_signature(request: CertificateSigningRequest) -> bool:
    """Tell whether a request is approved, and has neither failed nor a certificate."""
    return (
        not request.status.certificate
        and is_approved(request)
        and not has_failed(request)
    )


class SigningReconciler(Reconciler[CertificateSigningRequest]):
    """Signs approved requests for its signers, or writes why it refuses one.

    The clock is the API server's: if the clock of this machine is wrong, all
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
        # Signers with the same files share an authority.
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
            await self.client.update_for_metadata(
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
        problem = refusal_reason(spec.signer_name, parsed, spec.usages or ())
        if problem is not None:
            return self._failed(request, problem)
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
        self, request: CertificateSigningRequest, problem: str
    ) -> CertificateSigningRequestStatus:
        condition = CertificateSigningRequestCondition(
            type=FAILED,
            status="True",
            reason=REASON,
            message=problem,
            last_update_time=format_time(self.context.server_clock.now()),
        )
        conditions = (*(request.status.conditions or ()), condition)
        return replace(request.status, conditions=conditions)
