"""Secrets and certificates in the second form of recordings.

Their texts can be compared; keys, signatures, serial numbers and times cannot.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from controller_manager.api.json_objects import JSON

_PARTS_OF_TOKEN: Final = 3
_SHOWN_CLAIMS: Final = {"kid": "KEY", "iat": "TIME", "nbf": "TIME", "exp": "TIME"}
_USAGES: Final = {
    "digital_signature": "Digital Signature",
    "content_commitment": "Non Repudiation",
    "key_encipherment": "Key Encipherment",
    "data_encipherment": "Data Encipherment",
    "key_agreement": "Key Agreement",
    "key_cert_sign": "Certificate Sign",
    "crl_sign": "CRL Sign",
}
_EXTENDED_USAGES: Final = {
    ExtendedKeyUsageOID.SERVER_AUTH: "TLS Web Server Authentication",
    ExtendedKeyUsageOID.CLIENT_AUTH: "TLS Web Client Authentication",
}
_TITLES: Final[Mapping[type[x509.ExtensionType], str]] = {
    x509.BasicConstraints: "Basic Constraints",
    x509.KeyUsage: "Key Usage",
    x509.ExtendedKeyUsage: "Extended Key Usage",
    x509.SubjectAlternativeName: "Subject Alternative Name",
}
"""The extensions that are shown, with the titles that openssl prints."""


def readable(kind: str, obj: JSON) -> JSON:
    """Return an object whose tokens and certificates can be compared."""
    return _READERS[kind](obj) if kind in _READERS else obj


def _secret(secret: JSON) -> JSON:
    if not secret.get("data"):
        return secret
    data = {name: _value(encoded) for name, encoded in secret["data"].items()}
    return {**secret, "data": data}


def _request(request: JSON) -> JSON:
    encoded = (request.get("status") or {}).get("certificate")
    if not encoded:
        return request
    certificate = certificate_content(base64.b64decode(encoded))
    return {**request, "status": {**request["status"], "certificate": certificate}}


_READERS: Final[Mapping[str, Callable[[JSON], JSON]]] = {
    "Secret": _secret,
    "CertificateSigningRequest": _request,
}


def _value(encoded: str) -> Any:
    """Return the text of a value, or the content of a token."""
    try:
        text = base64.b64decode(encoded).decode()
    except ValueError:
        return encoded
    return _token(text) or text


def _token(text: str) -> JSON | None:
    """Return the header and the claims of a JWT, `None` for another text."""
    parts = text.split(".")
    if len(parts) != _PARTS_OF_TOKEN:
        return None
    try:
        header, claims = (
            json.loads(base64.urlsafe_b64decode(f"{each}==")) for each in parts[:2]
        )
    except (ValueError, binascii.Error):
        return None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        return None
    content = {**header, **claims}
    return {name: _SHOWN_CLAIMS.get(name, each) for name, each in content.items()}


def certificate_content(pem: bytes) -> JSON:
    certificate = x509.load_pem_x509_certificate(pem)
    lasts = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return {
        "subject": _names(certificate.subject),
        "issuer": _names(certificate.issuer),
        "seconds": int(lasts.total_seconds()),
        "extensions": dict(
            _extension(each)
            for each in certificate.extensions
            if type(each.value) in _TITLES
        ),
    }


def _names(name: x509.Name) -> list[str]:
    return sorted(f"{each.rfc4514_attribute_name}={each.value!s}" for each in name)


def _extension(
    extension: x509.Extension[x509.ExtensionType],
) -> tuple[str, list[str]]:
    title = f"X509v3 {_TITLES[type(extension.value)]}"
    critical = ": critical" if extension.critical else ""
    return f"{title}{critical}", sorted(_values(extension.value))


def _values(value: x509.ExtensionType) -> list[str]:
    if isinstance(value, x509.BasicConstraints):
        return [f"CA:{str(value.ca).upper()}"]
    if isinstance(value, x509.KeyUsage):
        return [title for name, title in _USAGES.items() if getattr(value, name)]
    if isinstance(value, x509.ExtendedKeyUsage):
        return [_EXTENDED_USAGES.get(each, each.dotted_string) for each in value]
    assert isinstance(value, x509.SubjectAlternativeName)
    return [f"{_prefix(each)}:{each.value}" for each in value]


def _prefix(name: x509.GeneralName) -> str:
    if isinstance(name, x509.DNSName):
        return "DNS"
    return "IP Address" if isinstance(name, x509.IPAddress) else type(name).__name__
