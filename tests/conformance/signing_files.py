"""The files that the flags of recordings name: a signing certificate, and keys.

Upstream ran with files of its own. These are made once in a process, in a directory
that is removed at its end.
"""

import atexit
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

FILE: Final = "FILE"
"""The placeholder in ``ARGS`` for the path of a file."""

_PEM: Final = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
_BEGINS: Final = datetime(2020, 1, 1, tzinfo=UTC)
"""The clock of a played recording is in January 2026."""


@cache
def signing_files() -> Mapping[str, str]:
    """Return the paths of the files by the names of the flags that name them."""
    directory = TemporaryDirectory()
    atexit.register(directory.cleanup)
    key = ec.generate_private_key(ec.SECP256R1())
    account_key = rsa.generate_private_key(65537, 2048)
    contents = {
        "cluster-signing-cert-file": _authority(key).public_bytes(Encoding.PEM),
        "cluster-signing-key-file": key.private_bytes(*_PEM),
        "service-account-private-key-file": account_key.private_bytes(*_PEM),
    }
    paths = {flag: Path(directory.name) / f"{flag}.pem" for flag in contents}
    for flag, path in paths.items():
        path.write_bytes(contents[flag])
    return {flag: str(path) for flag, path in paths.items()}


def with_files(text: str) -> str:
    """Return flags with the paths of files in the place of `FILE`."""
    if FILE not in text:
        return text
    for flag, path in signing_files().items():
        text = text.replace(f"--{flag}={FILE}", f"--{flag}={path}")
    return text


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "oracle-ca")])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_BEGINS)
        .not_valid_after(_BEGINS + timedelta(days=365 * 30))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
