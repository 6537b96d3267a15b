"""Signs approved requests (signer.go and certificate_controller.go).

The certificate for a request is made as in authority.go and policies.go.

The extension subjectAltName follows marshalSANs of Go's crypto/x509.
"""

import base64
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtensionOID, NameOID
from msgspec.structs import replace

from controller_manager.api.certificates import v1
from controller_manager.api.scalars import format_time
from controller_manager.client.rest.errors import NotFound
from controller_manager.control.certificates import pem, request_backoff
from controller_manager.control.certificates.request import (
    AlternativeNames,
    InvalidRequest,
    ParsedRequest,
    parse_request,
    validate_kubelet_client,
    validate_kubelet_serving,
)
from controller_manager.runtime.context import ControllerContext
from controller_manager.runtime.outcome import DONE, Outcome, SyncError
from controller_manager.runtime.reconciler import Reconciler
from controller_manager.runtime.watches import For
from controller_manager.workqueue.ratelimiters import Backoff

from .authority import (
    Authority,
    AuthoritySource,
    UnknownUsages,
    check_usages,
    extended_key_usage,
    key_usage,
)
from .options import SigningOptions

_SEQUENCE: Final = 0x30
_EMAIL: Final = 0x81
_DNS: Final = 0x82
_URI: Final = 0x86
_ADDRESS: Final = 0x87
_LONG_FORM: Final = 128
"""Contents of so many bytes have a length of several bytes in DER."""

_BACKDATE: Final = timedelta(minutes=5)
"""The time before now at which the validity starts, since clocks differ."""

_SHORT: Final = timedelta(hours=8)
"""The end of a certificate with a shorter validity is not moved back with its start."""

_SHORTEST: Final = timedelta(minutes=10)

_ATTRIBUTES: Final = (
    NameOID.COUNTRY_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.LOCALITY_NAME,
    NameOID.STATE_OR_PROVINCE_NAME,
    NameOID.STREET_ADDRESS,
    NameOID.POSTAL_CODE,
)
"""The attributes of a subject that Go copies with all their values, in its order."""

_SINGLE: Final = (NameOID.COMMON_NAME, NameOID.SERIAL_NUMBER)
"""The attributes after these, of which Go copies the last value only."""


class CannotSign(ValueError):
    """An authority cannot sign a request now; the message says why."""


def lifetime(wanted: int | None, longest: timedelta) -> timedelta:
    """Return how long a certificate is valid; `wanted` is in seconds."""
    if wanted is None:
        return longest
    asked = timedelta(seconds=wanted)
    return longest if asked > longest else max(asked, _SHORTEST)


def issue(
    authority: Authority,
    parsed: ParsedRequest,
    usages: Sequence[str],
    validity: timedelta,
    now: datetime,
) -> bytes:
    """Return the certificate for a request, as PEM.

    Subject and alternative names are the request's; its extensions do not count. The
    certificate ends no later than that of the authority. Raises CannotSign if the
    request is not signed by its own key, or if the authority has expired, and
    UnknownUsages.
    """
    if not parsed.is_signed():
        msg = "unable to verify certificate request signature"
        raise CannotSign(msg)
    check_usages(usages)
    begin, end = _validity(authority, validity, now)
    subject = _subject(parsed.subject)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(authority.certificate.subject)
        .public_key(parsed.request.public_key())
        # The number comes from the system's source of randomness, and is positive.
        .serial_number(secrets.randbits(128) or 1)
        .not_valid_before(begin)
        .not_valid_after(end)
    )
    for extension, critical in _extensions(authority, parsed, subject, usages):
        builder = builder.add_extension(extension, critical=critical)
    signed = builder.sign(authority.key, _hash_of(authority.key))
    return pem.encode("CERTIFICATE", signed.public_bytes(Encoding.DER))


def _validity(
    authority: Authority, validity: timedelta, now: datetime
) -> tuple[datetime, datetime]:
    """Return from when to when a certificate is valid; raises CannotSign."""
    ends = authority.certificate.not_valid_after_utc
    if now >= ends:
        msg = (
            "refusing to sign a certificate that expired in the past: the authority's "
            f"certificate ended at {ends.isoformat()}"
        )
        raise CannotSign(msg)
    backdated = timedelta() if validity < _SHORT else _BACKDATE
    return now - _BACKDATE, min(now + validity - backdated, ends)


def _subject(wanted: x509.Name) -> x509.Name:
    found = [
        list(dict.fromkeys(wanted.get_attributes_for_oid(each))) for each in _ATTRIBUTES
    ]
    for single in _SINGLE:
        last = wanted.get_attributes_for_oid(single)[-1:]
        found.append([each for each in last if each.value])
    return x509.Name([x509.RelativeDistinguishedName(each) for each in found if each])


def _extensions(
    authority: Authority,
    parsed: ParsedRequest,
    subject: x509.Name,
    usages: Sequence[str],
) -> list[tuple[x509.ExtensionType, bool]]:
    """Return the extensions and whether they are critical, in the order of Go."""
    found: list[tuple[x509.ExtensionType, bool]] = []
    if (bits := key_usage(usages)) is not None:
        found.append((bits, True))
    if (purposes := extended_key_usage(usages)) is not None:
        found.append((purposes, False))
    found.append((x509.BasicConstraints(ca=False, path_length=None), True))
    if authority.key_identifier and subject != authority.certificate.subject:
        identifier = x509.AuthorityKeyIdentifier(authority.key_identifier, None, None)
        found.append((identifier, False))
    if (names := alternative_names(parsed.names)) is not None:
        # A certificate without a subject has no other names.
        found.append((names, not list(subject)))
    return found


def _hash_of(key: object) -> hashes.SHA256 | hashes.SHA384 | hashes.SHA512 | None:
    """Return the hash with which Go signs with a key; Ed25519 has its own."""
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return None
    if isinstance(key, ec.EllipticCurvePrivateKey):
        match key.curve.name:
            case "secp384r1":
                return hashes.SHA384()
            case "secp521r1":
                return hashes.SHA512()
    return hashes.SHA256()


def alternative_names(names: AlternativeNames) -> x509.UnrecognizedExtension | None:
    """Return the extension with names in the order of Go, `None` without names.

    The function encodes it, since `x509.RFC822Name` refuses some texts that Go writes.
    All texts are ASCII, since `parse_request` refuses others.
    """
    encoded = b"".join(_element(tag, value) for tag, value in _parts(names))
    if not encoded:
        return None
    content = _element(_SEQUENCE, encoded)
    return x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, content)


def _parts(names: AlternativeNames) -> Iterator[tuple[int, bytes]]:
    for tag, texts in ((_DNS, names.dns), (_EMAIL, names.emails)):
        for text in texts:
            yield tag, text.encode("ascii")
    for address in names.addresses:
        yield _ADDRESS, address.packed
    for uri in names.uris:
        yield _URI, uri.encode("ascii")


def _element(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < _LONG_FORM:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes((tag, _LONG_FORM | len(length))) + length + content


_RSA_BITS: Final = 2048
_CLIENT_USAGES: Final = ("digital signature", "key encipherment", "client auth")


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
    if signer == v1.KUBE_APISERVER_CLIENT:
        return _validate_client(usages)
    if signer == v1.KUBELET_CLIENT:
        return validate_kubelet_client(parsed, usages)
    if signer == v1.KUBELET_SERVING:
        return validate_kubelet_serving(parsed, usages)
    return None


def _validate_client(usages: Sequence[str]) -> str | None:
    for usage in usages:
        if usage not in _CLIENT_USAGES:
            return f"invalid usage for client certificate: {usage}"
    if "client auth" not in usages:
        return "missing required usage for client certificate: client auth"
    return None


REASON: Final = "SignerValidationFailure"


def is_approved(request: v1.CertificateSigningRequest) -> bool:
    """Tell whether a request is approved and not denied."""
    found = {each.type for each in request.status.conditions or ()}
    return v1.APPROVED in found and v1.DENIED not in found


def has_failed(request: v1.CertificateSigningRequest) -> bool:
    """Tell whether a signer has refused a request."""
    return any(
        each.type == v1.FAILED and each.status in ("", "True")
        for each in request.status.conditions or ()
    )


def _waits_for_signature(request: v1.CertificateSigningRequest) -> bool:
    """Tell whether a request is approved, and has neither failed nor a certificate."""
    return (
        not request.status.certificate
        and is_approved(request)
        and not has_failed(request)
    )


class SigningReconciler(Reconciler[v1.CertificateSigningRequest]):
    """Signs approved requests for its signers, or writes why it refuses one.

    The constructor reads the authorities; it raises UnusableAuthority.

    The clock is the API server's: if the clock of this machine is wrong, all
    certificates would be useless.
    """

    watches = (For(v1.SIGNING_REQUESTS, when=_waits_for_signature),)
    queue_name = "certificate"
    workers = 5

    def __init__(self, context: ControllerContext) -> None:
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

    async def reconcile(self, request: v1.CertificateSigningRequest) -> Outcome:
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
                v1.SIGNING_REQUESTS, replace(request, status=status), "status"
            )
        return DONE

    def _decided(
        self, request: v1.CertificateSigningRequest, source: AuthoritySource
    ) -> v1.CertificateSigningRequestStatus:
        """Return the status with a certificate or a failure; raises SyncError."""
        name, spec = request.metadata.name, request.spec
        now = self.context.server_clock.now()
        try:
            parsed = parse_request(spec.request)
        except InvalidRequest as error:
            msg = f"unable to parse csr {name!r}: {error}"
            raise SyncError(msg) from error
        problem = refusal_reason(spec.signer_name, parsed, spec.usages or ())
        if problem is not None:
            condition = v1.CertificateSigningRequestCondition(
                type=v1.FAILED,
                status="True",
                reason=REASON,
                message=problem,
                last_update_time=format_time(now),
            )
            conditions = (*(request.status.conditions or ()), condition)
            return replace(request.status, conditions=conditions)
        validity = lifetime(spec.expiration_seconds, self._longest)
        usages = spec.usages or ()
        try:
            certificate = issue(source.current(), parsed, usages, validity, now)
        except (CannotSign, UnknownUsages) as error:
            msg = f"error auto signing csr {name!r}: {error}"
            raise SyncError(msg) from error
        encoded = base64.b64encode(certificate).decode()
        return replace(request.status, certificate=encoded)
