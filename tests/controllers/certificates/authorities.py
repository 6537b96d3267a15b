"""Authorities and requests for tests of the controllers of certificates."""

import base64
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from controller_manager.api.certificates.v1 import KUBELET_CLIENT
from controller_manager.api.json_objects import JSON

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey

BEGINS: Final = datetime(2020, 1, 1, tzinfo=UTC)
ENDS: Final = datetime(2040, 1, 1, tzinfo=UTC)

CLIENT_USAGES: Final = ("digital signature", "key encipherment", "client auth")
SERVING_USAGES: Final = ("digital signature", "key encipherment", "server auth")
NODES: Final = ("system:nodes",)


@cache
def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def certificate_for(
    key: Key, name: str = "test-ca", ends: datetime = ENDS
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(BEGINS)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, algorithm)
    )


def pem_of(key: Key) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write_authority(
    directory: Path, key: Key | None = None, name: str = "test-ca", **options: Any
) -> tuple[str, str]:
    """Write an authority into a directory; return its two files."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    files = directory / "ca.crt", directory / "ca.key"
    certificate = certificate_for(key, name, **options)
    files[0].write_bytes(certificate.public_bytes(Encoding.PEM))
    files[1].write_bytes(pem_of(key))
    return str(files[0]), str(files[1])


def request_for(
    common_name: str = "system:node:n1",
    organizations: Sequence[str] = NODES,
    *,
    dns: Sequence[str] = (),
    emails: Sequence[str] = (),
    addresses: Sequence[str] = (),
    uris: Sequence[str] = (),
) -> str:
    organization = NameOID.ORGANIZATION_NAME
    attributes = [x509.NameAttribute(organization, each) for each in organizations]
    if common_name:
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, common_name))
    builder = x509.CertificateSigningRequestBuilder().subject_name(
        x509.Name(attributes)
    )
    names: list[x509.GeneralName] = [
        *map(x509.DNSName, dns),
        *map(x509.RFC822Name, emails),
        *(x509.IPAddress(ip_address(each)) for each in addresses),
        *map(x509.UniformResourceIdentifier, uris),
    ]
    if names:
        extension = x509.SubjectAlternativeName(names)
        builder = builder.add_extension(extension, critical=False)
    return encoded(builder)


def encoded(builder: x509.CertificateSigningRequestBuilder) -> str:
    """Sign a request, and return it as it stands in ``spec.request``."""
    signed = builder.sign(new_key(), hashes.SHA256())
    return base64.b64encode(signed.public_bytes(Encoding.PEM)).decode()


def signing_request(
    name: str = "a",
    request: str = "",
    signer: str = KUBELET_CLIENT,
    usages: Sequence[str] = CLIENT_USAGES,
    **spec: Any,
) -> JSON:
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": request or request_for(),
            "signerName": signer,
            "usages": list(usages),
            **spec,
        },
    }


def condition(kind: str, **more: str) -> JSON:
    return {"type": kind, "status": "True", "reason": "ByHand", **more}


def issued_in(status: JSON) -> x509.Certificate:
    return x509.load_pem_x509_certificate(base64.b64decode(status["certificate"]))


def seconds(certificate: x509.Certificate) -> timedelta:
    return certificate.not_valid_after_utc - certificate.not_valid_before_utc
