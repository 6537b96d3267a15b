"""Parses PKCS#10 requests, and validates those of kubelets.

Upstream: ParseCSR and the rules for kubelets of pkg/apis/certificates/helpers.go. Each
`validate_` function returns the rule that a request breaks, in upstream's words, or
`None`.
"""

import base64
import binascii
import warnings
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtensionOID, NameOID
from msgspec import Struct

from .pem import blocks

_TYPE: Final = "CERTIFICATE REQUEST"
_UNREADABLE: Final = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)
"""The errors of the parser for a request that is not well-formed."""

_CURVES: Final = frozenset(("secp224r1", "secp256r1", "secp384r1", "secp521r1"))
"""The curves that Go's crypto/x509 knows."""


class InvalidRequest(ValueError):
    """The field has no well-formed request; the message says why."""


class AlternativeNames(Struct, frozen=True):
    """The alternative names of the four types that signers know, by type."""

    dns: tuple[str, ...] = ()
    emails: tuple[str, ...] = ()
    addresses: tuple[IPv4Address | IPv6Address, ...] = ()
    uris: tuple[str, ...] = ()


class ParsedRequest(Struct, frozen=True):
    """A parsed request, with its subject and its alternative names.

    `organizations` and `common_name` are those that Go's crypto/x509 would return. The
    last one of several common names counts.
    """

    common_name: str
    organizations: tuple[str, ...]
    subject: x509.Name
    names: AlternativeNames
    request: x509.CertificateSigningRequest

    def is_signed(self) -> bool:
        """Tell whether the request is signed with its own key.

        Go's crypto/x509 does not verify signatures of Ed448 or DSA, so they do not
        count.
        """
        try:
            return self.request.is_signature_valid and isinstance(
                self.request.public_key(),
                rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey,
            )
        except _UNREADABLE:
            return False


def parse_request(encoded: str | None) -> ParsedRequest:
    """Return the request in the field ``spec.request``.

    Raises InvalidRequest, also for a key on a curve that Go does not know.
    """
    try:
        data = base64.b64decode(encoded or "", validate=True)
    except (binascii.Error, ValueError) as error:
        msg = "the request is not encoded in base64"
        raise InvalidRequest(msg) from error
    block = next(blocks(data), None)
    if block is None or block.type != _TYPE:
        msg = f"PEM block type must be {_TYPE}"
        raise InvalidRequest(msg)
    try:
        return _parsed(x509.load_der_x509_csr(block.content))
    except _UNREADABLE as error:
        msg = f"the request cannot be read: {error}"
        raise InvalidRequest(msg) from error


def _parsed(request: x509.CertificateSigningRequest) -> ParsedRequest:
    key = request.public_key()
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name not in _CURVES:
        msg = "x509: unsupported elliptic curve"
        raise InvalidRequest(msg)
    with warnings.catch_warnings():
        # A node's name may be longer than X.520 allows, and Go accepts that.
        warnings.simplefilter("ignore")
        subject = request.subject
    common_names = _texts(subject, NameOID.COMMON_NAME)
    return ParsedRequest(
        common_name=common_names[-1] if common_names else "",
        organizations=_texts(subject, NameOID.ORGANIZATION_NAME),
        subject=subject,
        names=_alternative_names(request),
        request=request,
    )


def _texts(subject: x509.Name, kind: x509.ObjectIdentifier) -> tuple[str, ...]:
    found = (each.value for each in subject.get_attributes_for_oid(kind))
    return tuple(value for value in found if isinstance(value, str))


def _alternative_names(request: x509.CertificateSigningRequest) -> AlternativeNames:
    try:
        found = request.extensions.get_extension_for_oid(
            ExtensionOID.SUBJECT_ALTERNATIVE_NAME
        ).value
    except x509.ExtensionNotFound:
        return AlternativeNames()
    if not isinstance(found, x509.SubjectAlternativeName):
        msg = "the extension subjectAltName cannot be read"
        raise InvalidRequest(msg)
    return AlternativeNames(
        dns=tuple(_ascii(found.get_values_for_type(x509.DNSName))),
        emails=tuple(_ascii(found.get_values_for_type(x509.RFC822Name))),
        addresses=tuple(_addresses(found.get_values_for_type(x509.IPAddress))),
        uris=tuple(_ascii(found.get_values_for_type(x509.UniformResourceIdentifier))),
    )


def _ascii(found: Iterable[str]) -> Iterable[str]:
    """Yield the texts; raise InvalidRequest for one that is not ASCII, as Go does."""
    for each in found:
        if not each.isascii():
            msg = f"the request cannot be read: {each!r} is not ASCII"
            raise InvalidRequest(msg)
        yield each


def _addresses(found: Iterable[object]) -> Iterable[IPv4Address | IPv6Address]:
    for each in found:
        if not isinstance(each, IPv4Address | IPv6Address):
            msg = f"{each} is a range, and no IP address"
            raise InvalidRequest(msg)
        # Go writes an IPv4-mapped address as an IPv4 address.
        mapped = each.ipv4_mapped if isinstance(each, IPv6Address) else None
        yield mapped or each


_ORGANIZATIONS: Final = ("system:nodes",)
_NODE: Final = "system:node:"
_WRONG_ORGANIZATION: Final = "subject organization is not system:nodes"
_WRONG_NAME: Final = "subject common name does not begin with system:node:"

_ENCIPHERMENT: Final = "key encipherment"
_CLIENT: Final = frozenset(("digital signature", _ENCIPHERMENT, "client auth"))
_SERVING: Final = frozenset(("digital signature", _ENCIPHERMENT, "server auth"))


def validate_kubelet_client(parsed: ParsedRequest, usages: Iterable[str]) -> str | None:
    """Validate a request for the client certificate of a kubelet."""
    names = parsed.names
    if parsed.organizations != _ORGANIZATIONS:
        return _WRONG_ORGANIZATION
    for kind, found in (
        ("DNS", names.dns),
        ("Email", names.emails),
        ("IP", names.addresses),
        ("URI", names.uris),
    ):
        if found:
            return f"{kind} subjectAltNames are not allowed"
    if not parsed.common_name.startswith(_NODE):
        return _WRONG_NAME
    return _validate_usages(usages, _CLIENT)


def validate_kubelet_serving(
    parsed: ParsedRequest, usages: Iterable[str]
) -> str | None:
    """Validate a request for the certificate of a kubelet's own server."""
    names = parsed.names
    if parsed.organizations != _ORGANIZATIONS:
        return _WRONG_ORGANIZATION
    if not names.dns and not names.addresses:
        return "DNS or IP subjectAltName is required"
    for kind, found in (("Email", names.emails), ("URI", names.uris)):
        if found:
            return f"{kind} subjectAltNames are not allowed"
    if (problem := _validate_usages(usages, _SERVING)) is not None:
        return problem
    return None if parsed.common_name.startswith(_NODE) else _WRONG_NAME


def _validate_usages(usages: Iterable[str], wanted: frozenset[str]) -> str | None:
    if frozenset(usages) in (wanted, wanted - {_ENCIPHERMENT}):
        return None
    return f"usages did not match [{' '.join(sorted(wanted))}]"
