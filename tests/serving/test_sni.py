"""Certificate and cipher suite of a connection are those that Go would choose."""

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtensionOID, NameOID

from controller_manager.cli.flags import make_config as parsed
from controller_manager.client.identity.tls import TLSMaterial, TLSSettings
from controller_manager.clock import SystemClock
from controller_manager.observability.logs import silent_logger
from controller_manager.options.config import CertificateFiles, ServingConfig
from controller_manager.options.tls import DEFAULT_CIPHERS
from controller_manager.serving.certificates import Certificates, ServingError
from tests.serving.servers import config_of, serving, trusting


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


GO = (
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES128-SHA",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-ECDSA-AES256-SHA",
    "ECDHE-RSA-AES256-SHA",
)


async def agreed(url: str, *offered: str) -> str:
    """Return the suite that the server takes of those offered, empty for none."""
    context = trusting()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(":".join(offered))
    parts = urlsplit(url)
    try:
        _, writer = await asyncio.open_connection(
            parts.hostname, parts.port, ssl=context
        )
    except OSError:
        await asyncio.sleep(0)  # asyncio closes the socket in the next turn
        return ""
    cipher: tuple[str, str, int] = writer.get_extra_info("cipher")
    writer.close()
    await writer.wait_closed()
    return cipher[0]


async def test_the_server_takes_the_suites_of_go_and_no_others() -> None:
    """Its certificate has an ECDSA key, so those for RSA are left out here."""
    others = (
        "ECDHE-ECDSA-AES256-SHA384",
        "ECDHE-ECDSA-AES128-SHA256",
        "ECDHE-ECDSA-AES256-CCM",
        "ECDHE-ECDSA-CAMELLIA256-SHA384",
    )
    suites = [each for each in GO if "ECDSA" in each]
    async with serving() as url:
        assert [await agreed(url, each) for each in suites] == suites
        assert [await agreed(url, each) for each in others] == ["", "", "", ""]


@pytest.mark.parametrize(
    ("offered", "taken"),
    [
        (("ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-GCM-SHA256"), 1),
        (("ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-GCM-SHA384"), 1),
        (("ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305"), 0),
        # A client without instructions for AES has ChaCha20 first.
        (("ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-ECDSA-AES128-GCM-SHA256"), 0),
    ],
)
async def test_the_order_is_that_of_go(offered: tuple[str, ...], taken: int) -> None:
    async with serving() as url:
        assert await agreed(url, *offered) == offered[taken]


def test_chosen_suites_have_the_order_of_go_too() -> None:
    """The order of the flag does not count, as in Go."""
    chosen = (
        "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    )
    serving = parsed({"tls-cipher-suites": (chosen,)}, []).serving
    assert serving.ciphers == (GO[0], "ECDHE-RSA-AES128-SHA")


async def test_a_server_of_chosen_suites_takes_no_others() -> None:
    config = ServingConfig(port=0, bind_address="127.0.0.1", ciphers=(GO[0],))
    async with serving(config_of(serving=config)) as url:
        assert [await agreed(url, each) for each in (GO[0], GO[2])] == [GO[0], ""]


def test_a_client_offers_the_suites_of_go() -> None:
    """Besides those of TLS 1.3, which cannot be chosen."""
    context = TLSSettings(TLSMaterial(), SystemClock(), silent_logger()).current(None)
    offered = [each["name"] for each in context.get_ciphers()]
    assert [each for each in offered if not each.startswith("TLS_")] == [*GO]
    assert DEFAULT_CIPHERS == GO
