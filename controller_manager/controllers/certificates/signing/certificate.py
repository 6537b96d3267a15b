"""Makes the certificate for a request (authority/authority.go and policies.go)."""

import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from controller_manager.control.certificates import pem
from controller_manager.control.certificates.request import ParsedRequest
from controller_manager.controllers.certificates.signing.alternative_names import (
    alternative_names,
)
from controller_manager.controllers.certificates.signing.authority import Authority
from controller_manager.controllers.certificates.signing.usages import (
    check_usages,
    extended_key_usage,
    key_usage,
)

_BACKDATE: Final = timedelta(minutes=5)
"""A certificate is valid from so long before now: clocks differ."""

_SHORT: Final = timedelta(hours=8)
"""A certificate of less than this ends no earlier because it began earlier."""

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
"""Then come these, of which the last value counts."""


class CannotSign(ValueError):  # noqa: N818 - named after what it means
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
        # From the system's source of secrets; a serial number is positive.
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
        # Without a subject, the names are all there is.
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
