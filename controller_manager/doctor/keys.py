"""The files that flags name: certificates, keys and others."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from msgspec import Struct

from controller_manager.control.certificates.pem import blocks
from controller_manager.options.config import Config

from .finding import Finding, error, ok, warning

_SOON: Final = timedelta(days=30)
_TLS: Final = {"tls-cert-file": "tls-private-key-file"}


class _File(Struct, frozen=True):
    """A file that a flag names; `problem` says why it cannot be read."""

    flag: str
    path: str
    content: bytes = b""
    problem: str = ""

    def __str__(self) -> str:
        return f"--{self.flag}: {self.path}"


async def check_keys(config: Config, now: datetime) -> list[Finding]:
    """Read every file that a flag names, as this user, and check its content.

    Certificates must not have expired, and must belong to their keys. Kubeconfigs are
    read when the connections are made.
    """
    given = _given(config.flags)
    found = await asyncio.gather(
        *(asyncio.to_thread(_read, flag, path) for flag, path in given.items())
    )
    files = {each.flag: each for each in found}
    findings = [finding for each in files.values() for finding in _findings(each, now)]
    findings += _pairs(files)
    return findings or [ok(f"{len(files)} files can be read and used")]


def _given(flags: Mapping[str, str]) -> dict[str, str]:
    """Return the flags that name a file, with the file."""
    return {
        name: path
        for name, path in flags.items()
        if path and name.endswith("-file") and name != "log-file"
    }


def _read(flag: str, path: str) -> _File:
    try:
        # A pipe, for example, would never end.
        if not Path(path).is_file() and Path(path).exists():
            return _File(flag, path, problem="is no file")
        return _File(flag, path, Path(path).read_bytes())
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else "is no path"
        return _File(flag, path, problem=why or "cannot be read")


def _findings(file: _File, now: datetime) -> Iterator[Finding]:
    if file.problem:
        mend = "mount the file, or name another one"
        if file.problem == "Permission denied":
            mend = "let this user read it: fsGroup for a Secret, or chgrp and chmod"
        user = f"as uid {os.getuid()}"
        yield error(f"{file}: {file.problem} ({user})", mend)
    elif file.flag.endswith("key-file"):
        if _public_of_key(file) is None:
            yield error(f"{file}: no private key without a password is in it")
    elif file.flag.endswith(("cert-file", "ca-file")):
        yield from _of_certificates(file, now)


def _of_certificates(file: _File, now: datetime) -> Iterator[Finding]:
    certificates = _certificates(file)
    if not certificates:
        yield error(f"{file}: no certificate that can be read is in it")
    for each in certificates:
        # Its maker chose the name, which may have any character.
        whose = ascii(each.subject.rfc4514_string())
        ends = each.not_valid_after_utc
        if ends < now:
            text = f"{file}: the certificate of {whose} expired on {ends:%Y-%m-%d}"
            yield error(text, "renew it, for example with kubeadm certs renew")
        elif each.not_valid_before_utc > now:
            begins = f"{each.not_valid_before_utc:%Y-%m-%d}"
            yield error(f"{file}: the certificate of {whose} is valid from {begins} on")
        elif ends - now < _SOON:
            text = f"{file}: the certificate of {whose} expires on {ends:%Y-%m-%d}"
            yield warning(text, "renew it")


def _pairs(files: Mapping[str, _File]) -> Iterator[Finding]:
    """Yield certificates that do not belong to the key of the flag beside theirs."""
    for flag, file in files.items():
        key = files.get(_TLS.get(flag, flag.replace("-cert-file", "-key-file")))
        if key is None or key is file:
            continue
        certificates = _certificates(file)
        public = _public_of_key(key)
        if certificates and public and public != _public(certificates[0].public_key()):
            text = f"{file}: its key is not the one of {key}"
            yield error(text, "give a certificate and a key that belong together")


def _certificates(file: _File) -> list[x509.Certificate]:
    found = []
    for block in blocks(file.content):
        if block.type == "CERTIFICATE":
            try:
                found.append(x509.load_der_x509_certificate(block.content))
            except ValueError:
                continue  # a file without any usable one is reported
    return found


def _public_of_key(file: _File) -> bytes | None:
    """Return the public half of the key in a file, `None` if there is no usable key.

    The parser's messages are left out: they might have parts of the key.
    """
    try:
        return _public(
            serialization.load_pem_private_key(file.content, None).public_key()
        )
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None


def _public(key: object) -> bytes:
    encoded: bytes = key.public_bytes(  # type: ignore[attr-defined]
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return encoded
