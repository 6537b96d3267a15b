"""Requests with keys that Go does not know, or that are too weak, are not signed."""

import base64
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from controller_manager.api.certificates.v1 import SIGNER_NAMES
from controller_manager.control.certificates.request import (
    InvalidRequest,
    parse_request,
)
from controller_manager.controllers.certificates.signing.controller import (
    CannotSign,
    issue,
    refusal_reason,
)
from tests.controllers.certificates.authorities import CLIENT_USAGES, SERVING_USAGES
from tests.controllers.certificates.signing.test_certificate import AUTHORITY, NOW


def request_of(key: Any, algorithm: Any = None) -> str:
    """Return a kubelet's request that a key has signed."""
    names = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
        x509.NameAttribute(NameOID.COMMON_NAME, "system:node:n1"),
    ]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names))
    signed = builder.sign(key, algorithm)
    return base64.b64encode(signed.public_bytes(Encoding.PEM)).decode()


def rsa_request(bits: int) -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=bits)
    return request_of(key, hashes.SHA256())


@pytest.mark.parametrize(
    "curve",
    [ec.SECP256K1(), ec.SECP192R1(), ec.BrainpoolP256R1()],
    ids=lambda curve: curve.name,
)
def test_a_curve_that_go_does_not_know_cannot_be_read(curve: ec.EllipticCurve) -> None:
    """In Go's words; upstream and this manager try such a request again."""
    request = request_of(ec.generate_private_key(curve), hashes.SHA256())
    with pytest.raises(InvalidRequest, match="x509: unsupported elliptic curve"):
        parse_request(request)


@pytest.mark.parametrize(
    "request_body",
    [
        pytest.param(lambda: request_of(ed448.Ed448PrivateKey.generate()), id="Ed448"),
        pytest.param(
            lambda: request_of(dsa.generate_private_key(2048), hashes.SHA256()),
            id="DSA",
        ),
    ],
)
def test_a_key_whose_signatures_go_does_not_verify_is_not_signed(
    request_body: Any,
) -> None:
    """In Go's words."""
    parsed = parse_request(request_body())
    assert not parsed.is_signed()
    with pytest.raises(
        CannotSign, match="unable to verify certificate request signature"
    ):
        issue(AUTHORITY, parsed, CLIENT_USAGES, timedelta(days=1), NOW)


@pytest.mark.parametrize("signer", SIGNER_NAMES)
def test_a_short_rsa_key_is_refused_by_every_signer(signer: str) -> None:
    """The request gets the condition Failed, so its user does not wait in vain."""
    usages = SERVING_USAGES if "serving" in signer else CLIENT_USAGES
    parsed = parse_request(rsa_request(1024))
    assert refusal_reason(signer, parsed, usages) == (
        "the RSA key has 1024 bits, at least 2048 are required"
    )


@pytest.mark.parametrize(
    "request_body",
    [
        pytest.param(lambda: rsa_request(2048), id="RSA"),
        *(
            pytest.param(
                lambda curve=curve: request_of(
                    ec.generate_private_key(curve), hashes.SHA256()
                ),
                id=curve.name,
            )
            for curve in (ec.SECP224R1(), ec.SECP256R1(), ec.SECP384R1())
        ),
        pytest.param(
            lambda: request_of(
                ec.generate_private_key(ec.SECP521R1()), hashes.SHA512()
            ),
            id="secp521r1",
        ),
        pytest.param(
            lambda: request_of(ed25519.Ed25519PrivateKey.generate()), id="Ed25519"
        ),
    ],
)
def test_the_keys_that_go_knows_are_signed(request_body: Any) -> None:
    parsed = parse_request(request_body())
    signer = "kubernetes.io/kube-apiserver-client-kubelet"
    assert refusal_reason(signer, parsed, CLIENT_USAGES) is None
    certificate = x509.load_pem_x509_certificate(
        issue(AUTHORITY, parsed, CLIENT_USAGES, timedelta(days=1), NOW)
    )
    assert certificate.public_key() == parsed.request.public_key()
