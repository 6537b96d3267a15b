"""Each server name gets the certificate that upstream would choose for it."""

import ssl
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtensionOID, NameOID

from controller_manager.observability.logs import silent_logger
from controller_manager.options.config import CertificateFiles, ServingConfig
from controller_manager.serving.certificates import Certificates, ServingError


def write(
    directory: Path, file: str, common: str, *names: str, broken: bytes = b""
) -> CertificateFiles:
    """Write a certificate whose organization is `file`, and its key.

    `broken` are bytes in the place of the alternative names.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, common),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, file),
        ]
    )
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
    )
    if names:
        alternatives = x509.SubjectAlternativeName([x509.DNSName(n) for n in names])
        builder = builder.add_extension(alternatives, critical=False)
    if broken:
        oid = ExtensionOID.SUBJECT_ALTERNATIVE_NAME
        unreadable = x509.UnrecognizedExtension(oid, broken)
        builder = builder.add_extension(unreadable, critical=False)
    signed = builder.sign(key, hashes.SHA256())
    paths = directory / f"{file}.crt", directory / f"{file}.key"
    paths[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return CertificateFiles(str(paths[0]), str(paths[1]))


def certificates(directory: Path, *sni: CertificateFiles) -> Certificates:
    config = ServingConfig(
        certificate=write(directory, "default", "default.example"), sni=sni
    )
    return Certificates(config, lambda: b"", logger=silent_logger())


def served(chosen_by: Certificates, name: str) -> str:
    """Return the organization of the certificate that a name gets in a handshake."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    peer = client.wrap_bio(to_client, to_server, server_hostname=name or None)
    server = chosen_by.for_connection().wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (peer, server):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    der = peer.getpeercert(binary_form=True)
    assert der is not None
    subject = x509.load_der_x509_certificate(der).subject
    (organization,) = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return str(organization.value)


@pytest.mark.parametrize(
    ("common", "names", "matches"),
    [
        ("a.example", (), ["a.example", "A.EXAMPLE"]),
        ("a.example", ("b.example",), ["a.example", "A.EXAMPLE", "b.example"]),
        ("*.example", (), ["a.example", "A.EXAMPLE", "b.example"]),
        ("*", (), ["localhost"]),
        ("some user", (), []),
        ("some user", ("b.example",), ["b.example"]),
    ],
)
def test_without_names_those_of_the_certificate_count(
    tmp_path: Path, common: str, names: Sequence[str], matches: Sequence[str]
) -> None:
    """Its common name, if it is a domain, and its alternative names."""
    found = certificates(tmp_path, write(tmp_path, "named", common, *names))
    for name in ("a.example", "A.EXAMPLE", "b.example", "x.b.example", "localhost", ""):
        assert served(found, name) == ("named" if name in matches else "default")


def test_names_that_are_given_win(tmp_path: Path) -> None:
    of_certificate = write(tmp_path, "first", "a.example")
    given = CertificateFiles(
        *_files(write(tmp_path, "second", "z.example")), names=("a.example",)
    )
    later = CertificateFiles(
        *_files(write(tmp_path, "third", "y.example")), names=("a.example", "b.example")
    )
    found = certificates(tmp_path, of_certificate, given, later)
    assert served(found, "a.example") == "second"
    assert served(found, "b.example") == "third"
    assert served(found, "z.example") == "default"


def test_a_name_wins_over_a_wildcard(tmp_path: Path) -> None:
    wildcard = CertificateFiles(
        *_files(write(tmp_path, "wild", "z.example")), names=("*.example",)
    )
    found = certificates(tmp_path, wildcard, write(tmp_path, "exact", "a.example"))
    assert served(found, "a.example") == "exact"
    assert served(found, "b.example") == "wild"
    assert served(found, "x.b.example") == "default"


def test_the_names_of_a_new_certificate_count_at_once(tmp_path: Path) -> None:
    found = certificates(tmp_path, write(tmp_path, "named", "a.example"))
    assert served(found, "a.example") == "named"
    write(tmp_path, "named", "b.example")
    assert served(found, "b.example") == "named"
    assert served(found, "a.example") == "default"


def _files(files: CertificateFiles) -> tuple[str, str]:
    return files.certificate, files.key


def test_names_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    """Before, the start ended with a traceback."""
    wrong = write(tmp_path, "wrong", "wrong.example", broken=b"\x30\x05abc")
    with pytest.raises(ServingError) as refused:
        certificates(tmp_path, wrong)
    where, _, why = str(refused.value).partition(": its names cannot be read: ")
    flag = "--tls-sni-cert-key"
    assert where == f"{flag} {wrong.certificate} with {flag} {wrong.key}"
    assert why.startswith("error parsing asn1 value")
