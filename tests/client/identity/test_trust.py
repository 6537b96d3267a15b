"""Every Python on the machine trusts the same chains of certificates."""

import json
import os
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from controller_manager.client.identity.tls import TLSMaterial, TLSSettings
from controller_manager.clock import SystemClock
from controller_manager.observability.logs import silent_logger
from tests.client.identity.handshakes import holder, is_trusted
from tests.distributions import completed

ROOT = Path(__file__).parents[3]
VERSIONS = range(11, 20)


def interpreters() -> Iterator[tuple[str, str]]:
    """Find versions of Python from 3.11 on, this one first."""
    yield f"3.{sys.version_info.minor}", sys.executable
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for minor in VERSIONS:
        name = f"python3.{minor}"
        found = [shutil.which(name), *(root.glob(f"versions/3.{minor}.*/bin/{name}"))]
        usable = next((str(each) for each in found if each and runs(str(each))), None)
        if usable and minor != sys.version_info.minor:
            yield f"3.{minor}", usable


def runs(program: str) -> bool:
    """Tell whether that is a Python, and no stand-in for one that is not here."""
    try:
        command = [program, "-c", "import ssl"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


PYTHONS = dict(interpreters())


class Authority:
    """An authority, with or without the extensions that a strict check wants."""

    def __init__(
        self, name: str, issuer: "Authority | None" = None, *, bare: bool = False
    ) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._bare = bare
        signer = issuer or self
        self.certificate = signer.sign(self.name, self.key, ca=True)

    def sign(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, ca: bool
    ) -> x509.Certificate:
        now = datetime.now(UTC)
        names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), ca)
            .add_extension(names, critical=False)
        )
        if not self._bare:
            public = key.public_key()
            own = x509.SubjectKeyIdentifier.from_public_key(public)
            issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(
                self.key.public_key()
            )
            builder = builder.add_extension(own, critical=False)
            builder = builder.add_extension(issuer, critical=False)
        return builder.sign(self.key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def chain(self) -> bytes:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
        certificate = self.sign(subject, key, ca=False)
        encoded = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        own = certificate.public_bytes(serialization.Encoding.PEM)
        return encoded + own + self.pem


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    root = Authority("root")
    intermediate = Authority("intermediate", root)
    bare = Authority("bare", bare=True)
    for each in (root, intermediate, bare):
        name = each.name.rfc4514_string().removeprefix("CN=")
        (tmp_path / f"{name}.pem").write_bytes(each.pem)
    (tmp_path / "by-intermediate.pem").write_bytes(intermediate.chain())
    (tmp_path / "by-bare.pem").write_bytes(bare.chain())
    return tmp_path


EXPECTED = {
    "intermediate:by-intermediate": [True, True],
    "root:by-intermediate": [True, True],
    "bare:by-bare": [True, True],
    "root:by-bare": [False, False],
    "bare:by-intermediate": [False, False],
}


@pytest.mark.parametrize("version", PYTHONS)
def test_every_python_trusts_the_same_chains(version: str, certificates: Path) -> None:
    """An intermediate alone is enough, and no key identifier is needed."""
    program = (PYTHONS[version], "-m", "tests.client.identity.handshakes")
    answer = completed(*program, certificates, *EXPECTED, cwd=ROOT)
    assert (answer.stderr, answer.returncode) == ("", 0)
    assert dict(zip(EXPECTED, json.loads(answer.stdout), strict=True)) == EXPECTED


@pytest.mark.parametrize("pair", EXPECTED)
def test_a_kubeconfig_names_the_trusted_chains(pair: str, certificates: Path) -> None:
    authority, chain = pair.split(":")
    material = TLSMaterial(authority=certificates / f"{authority}.pem")
    client = TLSSettings(material, SystemClock(), silent_logger()).current(None)
    server = holder(ssl.PROTOCOL_TLS_SERVER, certificates, chain)
    assert is_trusted(client, server) is EXPECTED[pair][0]
