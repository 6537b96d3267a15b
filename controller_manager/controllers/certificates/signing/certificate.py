"""Makes the certificate for a request (authority.go and policies.go).

The extension subjectAltName follows marshalSANs of Go's crypto/x509.
"""

import secrets
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtensionOID, NameOID

from controller_manager.control.certificates import pem
from controller_manager.control.certificates.request import (
    AlternativeNames,
    ParsedRequest,
)

from .authority import Authority
from .usages import check_usages, extended_key_usage, key_usage

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
    """Return the attributes that Go copies, each in a set of all its values."""
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
    """Yield the tag and the content of each name."""
    for tag, texts in ((_DNS, names.dns), (_EMAIL, names.emails)):
        for text in texts:
            yield tag, text.encode("ascii")
    for address in names.addresses:
        yield _ADDRESS, address.packed
    for uri in names.uris:
        yield _URI, uri.encode("ascii")


def _element(tag: int, content: bytes) -> bytes:
    """Return an element of DER."""
    size = len(content)
    if size < _LONG_FORM:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes((tag, _LONG_FORM | len(length))) + length + content
