"""The certificate that a signer makes."""

import base64
import warnings
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from controller_manager.api.certificates.v1 import SIGNER_NAMES
from controller_manager.control.certificates.request import (
    InvalidRequest,
    parse_request,
)
from controller_manager.controllers.certificates.signing.authority import (
    Authority,
    Key,
    UnknownUsages,
)
from controller_manager.controllers.certificates.signing.controller import (
    CannotSign,
    issue,
    lifetime,
    refusal_reason,
)
from tests.controllers.certificates.authorities import (
    CLIENT_USAGES,
    ENDS,
    SERVING_USAGES,
    certificate_for,
    encoded,
    new_key,
    request_for,
    seconds,
)
from tests.controllers.rows import rows

NOW = datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)
DAY = timedelta(days=1)
YEAR = 365 * DAY
KEY = ec.generate_private_key(ec.SECP256R1())
AUTHORITY = Authority(certificate_for(KEY), KEY)


def issued(
    request: str = "",
    usages: tuple[str, ...] = CLIENT_USAGES,
    validity: timedelta = DAY,
    now: datetime = NOW,
    authority: Authority = AUTHORITY,
) -> x509.Certificate:
    parsed = parse_request(request or request_for())
    return x509.load_pem_x509_certificate(
        issue(authority, parsed, usages, validity, now)
    )


@pytest.mark.parametrize(
    ("wanted", "longest", "found"),
    [
        (None, YEAR, YEAR),
        (3600, YEAR, timedelta(hours=1)),
        (86400, DAY, DAY),
        (86401, DAY, DAY),
        (1, YEAR, timedelta(minutes=10)),
        (-5, YEAR, timedelta(minutes=10)),
        (600, timedelta(minutes=5), timedelta(minutes=5)),
    ],
)
def test_the_lifetime_is_between_ten_minutes_and_the_longest(
    wanted: int | None, longest: timedelta, found: timedelta
) -> None:
    assert lifetime(wanted, longest) == found


@pytest.mark.parametrize(
    ("validity", "whole"),
    [
        (timedelta(minutes=10), timedelta(minutes=15)),
        (timedelta(hours=8, seconds=-1), timedelta(hours=8, minutes=5, seconds=-1)),
        (timedelta(hours=8), timedelta(hours=8)),
        (YEAR, YEAR),
    ],
)
def test_its_start_is_minutes_ago(validity: timedelta, whole: timedelta) -> None:
    """One that lasts eight hours or more ends so much earlier."""
    certificate = issued(validity=validity)
    begins = datetime(2026, 1, 1, 11, 55, tzinfo=UTC)
    assert certificate.not_valid_before_utc == begins
    assert seconds(certificate) == whole


def test_a_certificate_ends_with_its_authority() -> None:
    last = ENDS - timedelta(minutes=1)
    assert issued(now=last).not_valid_after_utc == ENDS
    for late in (ENDS, ENDS + timedelta(minutes=4), ENDS + DAY):
        with pytest.raises(CannotSign, match="expired in the past"):
            issued(now=late)


def test_names_are_copied_and_extensions_are_not() -> None:
    name = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, "first"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "b"),
            x509.NameAttribute(NameOID.COMMON_NAME, "last"),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "a"),
            x509.NameAttribute(NameOID.EMAIL_ADDRESS, "x@example.com"),
        ]
    )
    names = x509.SubjectAlternativeName(
        [
            x509.UniformResourceIdentifier("spiffe://a/b"),
            x509.DNSName("a.example.com"),
            x509.DirectoryName(name),
        ]
    )
    request = encoded(
        x509.CertificateSigningRequestBuilder()
        .subject_name(name)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(names, critical=True)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
    )
    certificate = issued(request)
    assert certificate.subject.rfc4514_string() == "CN=last,O=a+O=b"
    assert [
        (each.oid._name, each.critical, each.value) for each in certificate.extensions
    ] == [
        (
            "keyUsage",
            True,
            x509.KeyUsage(
                digital_signature=True,
                content_commitment=False,
                key_encipherment=True,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=False,
                crl_sign=False,
                encipher_only=False,
                decipher_only=False,
            ),
        ),
        (
            "extendedKeyUsage",
            False,
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]),
        ),
        ("basicConstraints", True, x509.BasicConstraints(ca=False, path_length=None)),
        (
            "authorityKeyIdentifier",
            False,
            x509.AuthorityKeyIdentifier(AUTHORITY.key_identifier, None, None),
        ),
        (
            "subjectAltName",
            False,
            x509.SubjectAlternativeName(
                [
                    x509.DNSName("a.example.com"),
                    x509.UniformResourceIdentifier("spiffe://a/b"),
                ]
            ),
        ),
    ]
    assert certificate.public_key() == new_key().public_key()


def test_a_subject_with_the_authoritys_name_gets_no_authority_key_identifier() -> None:
    certificate = issued(request_for("test-ca", ()))
    assert certificate.subject == certificate.issuer
    names = [each.oid._name for each in certificate.extensions]
    assert names == ["keyUsage", "extendedKeyUsage", "basicConstraints"]


@pytest.mark.parametrize(
    "key",
    [
        rsa.generate_private_key(65537, 2048),
        ec.generate_private_key(ec.SECP384R1()),
        ec.generate_private_key(ec.SECP521R1()),
        ed25519.Ed25519PrivateKey.generate(),
    ],
    ids=lambda key: type(key).__name__,
)
def test_every_kind_of_key_signs(key: Key) -> None:
    authority = Authority(certificate_for(key), key)
    issued(authority=authority).verify_directly_issued_by(authority.certificate)


def test_a_node_may_have_a_long_name() -> None:
    name = f"system:node:{'n' * 200}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        attribute = x509.NameAttribute(NameOID.COMMON_NAME, name, _validate=False)
    subject = x509.Name([attribute])
    request = encoded(x509.CertificateSigningRequestBuilder().subject_name(subject))
    assert parse_request(request).common_name == name
    certificate = issued(request)
    with pytest.warns(UserWarning, match="length"):
        assert certificate.subject == subject


def test_unknown_usages_are_named() -> None:
    with pytest.raises(UnknownUsages, match=r'\["fishing" "\*"\]'):
        issued(usages=("client auth", "fishing", "*"))


def test_a_request_with_a_foreign_signature_is_not_signed() -> None:
    pem = base64.b64decode(request_for())
    der = bytearray(x509.load_pem_x509_csr(pem).public_bytes(Encoding.DER))
    der[-1] ^= 1
    broken = _PEM.format(base64.b64encode(bytes(der)).decode())
    request = base64.b64encode(broken.encode()).decode()
    assert not parse_request(request).is_signed()
    with pytest.raises(CannotSign, match="unable to verify"):
        issued(request)


_SOUND = x509.load_pem_x509_csr(
    base64.b64decode(request_for("jane", ["devs"], dns=["a.b"], uris=["x://y"]))
).public_bytes(Encoding.DER)
_PEM = "-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----\n"


@settings(deadline=None)
@given(st.binary(max_size=200) | st.binary(max_size=300).map(base64.b64encode))
def test_data_that_are_no_request_raise_one_error(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_request(data.decode("latin-1"))


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_a_damaged_request_has_no_valid_signature(data: st.DataObject) -> None:
    der = bytearray(_SOUND)
    place = data.draw(st.integers(0, len(der) - 1))
    der[place] ^= data.draw(st.integers(1, 255))
    broken = _PEM.format(base64.b64encode(bytes(der)).decode())
    request = base64.b64encode(broken.encode()).decode()
    try:
        parsed = parse_request(request)
    except InvalidRequest:
        return
    assert not parsed.is_signed()


def request_of(key: Any, algorithm: Any = None) -> str:
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


@rows(
    "make algorithm",
    {
        "Ed448": (ed448.Ed448PrivateKey.generate, None),
        "DSA": (lambda: dsa.generate_private_key(2048), hashes.SHA256()),
    },
)
def test_a_key_that_does_not_verify_is_not_signed(make: Any, algorithm: Any) -> None:
    parsed = parse_request(request_of(make(), algorithm))
    assert not parsed.is_signed()
    with pytest.raises(
        CannotSign, match="unable to verify certificate request signature"
    ):
        issue(AUTHORITY, parsed, CLIENT_USAGES, DAY, NOW)


@pytest.mark.parametrize("signer", SIGNER_NAMES)
def test_a_short_rsa_key_is_refused_by_every_signer(signer: str) -> None:
    """The request gets the condition Failed, so its user does not wait in vain."""
    usages = SERVING_USAGES if "serving" in signer else CLIENT_USAGES
    parsed = parse_request(rsa_request(1024))
    assert refusal_reason(signer, parsed, usages) == (
        "the RSA key has 1024 bits, at least 2048 are required"
    )


def on(curve: ec.EllipticCurve) -> Any:
    return lambda: ec.generate_private_key(curve)


@rows(
    "make algorithm",
    {
        "RSA": (lambda: rsa.generate_private_key(65537, 2048), hashes.SHA256()),
        "secp224r1": (on(ec.SECP224R1()), hashes.SHA256()),
        "secp256r1": (on(ec.SECP256R1()), hashes.SHA256()),
        "secp384r1": (on(ec.SECP384R1()), hashes.SHA256()),
        "secp521r1": (on(ec.SECP521R1()), hashes.SHA512()),
        "Ed25519": (ed25519.Ed25519PrivateKey.generate, None),
    },
)
def test_the_keys_that_go_knows_are_signed(make: Any, algorithm: Any) -> None:
    parsed = parse_request(request_of(make(), algorithm))
    signer = "kubernetes.io/kube-apiserver-client-kubelet"
    assert refusal_reason(signer, parsed, CLIENT_USAGES) is None
    pem = issue(AUTHORITY, parsed, CLIENT_USAGES, DAY, NOW)
    certificate = x509.load_pem_x509_certificate(pem)
    assert certificate.public_key() == parsed.request.public_key()
