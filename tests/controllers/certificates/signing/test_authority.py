"""Keys are read in the forms in which tools write them."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from controller_manager.controllers.certificates.signing.authority import (
    AuthoritySource,
)
from controller_manager.controllers.certificates.signing.options import AuthorityFiles
from controller_manager.observability.logs import silent_logger
from tests.controllers.certificates.authorities import write_authority

_PARAMETERS = (
    b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
)


@pytest.mark.parametrize(
    "form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL]
)
@pytest.mark.parametrize(
    ("key", "before"),
    [
        (rsa.generate_private_key(65537, 2048), b""),
        (ec.generate_private_key(ec.SECP256R1()), _PARAMETERS),
    ],
    ids=["RSA", "EC"],
)
def test_a_key_is_read_in_both_forms(
    tmp_path: Path,
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey,
    before: bytes,
    form: PrivateFormat,
) -> None:
    """Kubeadm and openssl write the old one; its text shows nothing of the key."""
    files = AuthorityFiles(*write_authority(tmp_path, key))
    pem = key.private_bytes(Encoding.PEM, form, NoEncryption())
    Path(files.key).write_bytes(before + pem)
    authority = AuthoritySource(files, silent_logger()).current()
    assert authority.key.public_key() == key.public_key()
    assert repr(authority) == "Authority('CN=test-ca')"
