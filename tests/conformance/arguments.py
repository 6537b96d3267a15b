"""The flags with which the recordings of a family were made.

``ARGS`` has those of the controller manager, and those of the API server in a line that
begins with ``apiserver:``. Upstream ran with files of its own: a signing certificate,
and keys. These are made once in a process, in a directory that is removed at its end.
"""

import atexit
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID

from controller_manager.devcluster.registry.core.service_addresses import DEFAULT_RANGE

Flags = Mapping[str, list[str]]
"""The values that each flag was given, by its name."""

_OF_SERVER: Final = "apiserver:"
_GATES: Final = "feature-gates"
_RANGE: Final = "service-cluster-ip-range"


class Arguments(NamedTuple):
    """The flags of the controller manager, and of the API server."""

    manager: Flags
    server: Flags

    @property
    def server_gates(self) -> dict[str, bool]:
        """The feature gates that were set for the API server."""
        pairs = (
            pair.partition("=")
            for value in self.server.get(_GATES, ())
            for pair in value.split(",")
        )
        return {name: value == "true" for name, _, value in pairs}

    @property
    def service_cluster_ip_range(self) -> str:
        return self.server.get(_RANGE, [DEFAULT_RANGE])[-1]


def arguments(text: str, more: str = "") -> Arguments:
    """Return the flags in the text of ``ARGS``, with `more` of the manager's."""
    lines = text.splitlines()
    of_server = [each for each in lines if each.startswith(_OF_SERVER)]
    of_manager = [each for each in lines if each not in of_server]
    return Arguments(
        _flags(" ".join((*of_manager, more))),
        _flags(" ".join(each.removeprefix(_OF_SERVER) for each in of_server)),
    )


def _flags(text: str) -> Flags:
    given: dict[str, list[str]] = {}
    for flag in shlex.split(text):
        name, _, value = flag.removeprefix("--").partition("=")
        given.setdefault(name, []).append(value)
    return given


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
