"""Private keys for tests; they protect nothing."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from controller_manager.controllers.identity.tokens.controller import PrivateKey


@cache
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


@cache
def elliptic_key() -> ec.EllipticCurvePrivateKey:
    return ec.derive_private_key(20260101, ec.SECP256R1())


def pem(
    key: PrivateKey, form: PrivateFormat = PrivateFormat.TraditionalOpenSSL
) -> bytes:
    return key.private_bytes(Encoding.PEM, form, NoEncryption())


@cache
def key_file(algorithm: str = "ES256") -> str:
    """Return the path of a file with a key; it is removed when the process ends."""
    directory = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    path = Path(directory) / "sa.key"
    path.write_bytes(pem(rsa_key() if algorithm == "RS256" else elliptic_key()))
    return str(path)
